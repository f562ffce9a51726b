-- What users asked, each text once with how often it came, the most frequent first. Messages of our own channels hold
-- `text`; imported ones hold `content`, and their name is the role that spoke.
select coalesce(input->>'$.text', input->>'$.content') as query, sum(weight) as times
from events
where action = 'message_received'
  and (input->>'$.text' is not null or name in ('user', 'human'))
  and query is not null
group by query
order by times desc, query
