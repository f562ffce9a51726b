-- Episodes that ended but were not graded, each with one of the same run and task that began later and was graded: it may
-- be the same attempt, made again because the run had been killed before it was graded. Reads: facts.
select cut.episode_id, later.episode_id as later_id
from facts as cut
join facts as later on later.run_id = cut.run_id and later.task_id = cut.task_id and later.began >= cut.began
where cut.ended is not null and cut.grades = 0 and cut.end_status is distinct from 'cancelled' and later.grades > 0
