-- A session's tokens and costs by model and task.
SELECT * FROM session_model_usage WHERE session_id = CAST(? AS TEXT)
