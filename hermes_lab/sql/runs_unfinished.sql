-- Runs with episodes that began and never ended: they were killed, or are at work now. Newest first.
with started as (
    select episode_id, run_id, input->>'$.run.suite' as suite
    from events
    where action = 'task_started' and input->>'$.run.suite' is not null
),
ended as (select distinct episode_id from events where action = 'task_ended')
select run_id, any_value(suite) as suite, count(*) as episodes
from started anti join ended using (episode_id)
where suite <> 'conversation'
group by run_id
order by run_id desc
