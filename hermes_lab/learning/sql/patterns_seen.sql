-- Earlier turns that a reflection took for a success of a certain shape, with their episodes. Parameter: the pattern.
select distinct output->>'$.skill.episode' as episode_id, output->>'$.skill.event' as event_id
from events
where action = 'reflection' and episode_id is null and output->>'$.skill.pattern' = ?
order by episode_id
