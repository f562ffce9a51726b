-- Where each episode came from, as far as its first event says: suite, seed, difficulty, language. (The loop leaves out
-- what is the default.) Parameters: versions and runs to look at; null for all.
select
    episode_id,
    given[2] as suite,
    try_cast(given[1] as bigint) as seed,
    coalesce(try_cast(given[3] as integer), case when given[2] is not null then 1 end) as difficulty,
    coalesce(given[4], case when given[2] is not null then 'en' end) as language,
    coalesce(given[5] = 'true', false) as is_tempting
from (
    select
        episode_id,
        -- A session that was taken up again starts more than once.
        arg_min(
            input->>['$.seed', '$.run.suite', '$.task.difficulty', '$.task.language', '$.task.tempting'],
            coalesce(step, 0)
        ) as given
    from events
    where action = 'task_started' and episode_id is not null
        and ($versions is null or config_version in (select unnest($versions)))
        and ($runs is null or run_id in (select unnest($runs)))
    group by episode_id
)
