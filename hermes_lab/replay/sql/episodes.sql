-- The episodes with an event that satisfies a condition, in order, as ids alone.
-- Formatted with the condition; its parameters are the query's.
select episode_id
from events
where episode_id is not null
  and ({where}
  )
group by episode_id
order by episode_id
