-- What happened in some episodes, episode by episode in order, with what replay looks at.
-- Formatted with the columns, and one placeholder for each episode id, so that files which hold none of them are left out.
select
    {columns},
    case when action = 'generation' then input->>'$.purpose' end as purpose
from events
where episode_id in ({ids})
order by episode_id, step nulls last, event_id
