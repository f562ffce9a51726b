-- When a run wrote its first event.
select min(ts) from events where run_id = ?
