-- Episodes in which a search can have been thrown away: there are two or more.
-- To fill in: events, the view to read; among, a condition that keeps some episodes only.
select episode_id
from {events}
where action = 'retrieval' and episode_id is not null {among}
group by episode_id
having count(*) > 1
