-- Questions that a grader put to the strong model once the episode was over: no cost of the agent's.
-- To fill in: events, the view to read.
select reply.event_id
from {events} as reply
join (select episode_id, max(step) as step from {events} where action = 'task_ended' group by episode_id) as ended
    on ended.episode_id = reply.episode_id and ended.step < reply.step
where reply.action = 'generation' and reply.tier = 'strong'
