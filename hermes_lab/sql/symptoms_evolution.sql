-- What the releases, suggestions and memories of the last 30 days show, in one row of counts.
select
    count(*) filter (action = 'published') as published,
    count(*) filter (action = 'rolled_back') as rolled_back,
    count(*) filter (action = 'suggestion') as suggestions,
    count(*) filter (action = 'suggestion' and status in ('invalid', 'denied', 'error')) as refused_suggestions,
    count(*) filter (action = 'memory_written') as memories,
    count(*) filter (action = 'memory_written' and config_version is null) as untagged_memories
from events
where action in ('published', 'rolled_back', 'suggestion', 'memory_written')
  and ts > (select max(ts) from events) - interval 30 days
