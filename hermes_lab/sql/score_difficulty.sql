-- The scores of each version by difficulty of the task, from 1 (one step) to 3. Reads: episodes; origins.
select
    config_version,
    difficulty,
    count(*) as episodes,
    sum(completion) / count(*) as completion,
    sum(base) / count(*) as base,
    avg(effectiveness) as effectiveness,
    avg(safety) as safety,
    avg(tokens) as tokens,
    avg(seconds) as seconds
from episodes left join origins using (episode_id)
where counts
group by config_version, difficulty
order by config_version, difficulty
