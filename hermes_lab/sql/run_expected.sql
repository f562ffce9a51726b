-- What episodes of a suite took before under a configuration and model, for an estimate of the next run.
with started as (
    select episode_id, run_id, ts
    from events
    where action = 'task_started'
      and input->>'$.run.suite' = ?
      and input->>'$.run.models.light' = ?
      and config_version = ?
),
ended as (
    select started.run_id, started.ts as began, events.ts as ended, output
    from started join events using (episode_id)
    where action = 'task_ended' and status is distinct from 'cancelled'
),
runs as (
    select run_id, epoch(max(ended) - min(began)) / count(*) as seconds_each from ended group by all
)
select
    count(*) as episodes,
    avg(cast(output->>'$.steps' as double) + cast(output->>'$.reflections' as double)) as model_calls,
    avg(cast(output->>'$.tokens' as double)) as tokens,
    avg(cast(output->>'$.usd' as double)) as usd,
    (select median(seconds_each) from runs) as wall_seconds
from ended
