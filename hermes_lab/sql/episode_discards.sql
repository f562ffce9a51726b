-- Searches whose result was thrown away: found something, but of all that it found nothing stands in what came after,
-- while another search of the episode was used. (Many searches at once, of which one is picked, look like this.)
-- Words and numbers that the request or the query had already prove no use; Chinese is looked at in pairs of characters.
-- To fill in: events, the view to read; is_empty, whether a search found nothing; is_taken_back, as in episode_facts.
-- Parameter ids: episodes with several searches.
with acts as (
    select
        episode_id,
        coalesce(step, 0) as step,
        case when action = 'task_started'
            then lower(coalesce(input->>'$.task.prompt', input->>'$.prompt', '')) end as request,
        -- What was said and done, in order; the last word is the answer.
        lower(case action
            when 'task_ended' then coalesce(observation, '')
            when 'generation' then coalesce(output->>'$.text', output->>'$.content', '')
            when 'task_started' then null
            else coalesce(input, '')
        end) as said,
        case when action = 'retrieval' and status = 'ok' and weight > 0 and not {is_taken_back}
            then case when not ({is_empty}) then lower(output) end end as found,
        case when action = 'retrieval' then hash(name, coalesce(request_hash, md5(coalesce(input, '')))) end as call
    from {events}
    where episode_id in (select unnest($ids))
        and action in ('task_started', 'task_ended', 'generation', 'tool_called', 'code_executed', 'retrieval')
),
requests as (
    select episode_id, min(request) as request from acts where request is not null group by episode_id
),
searches as (
    select episode_id, call, min(step) as step, arg_min(said, step) as query, arg_min(found, step) as found
    from acts
    where found is not null
    group by episode_id, call
),
uses as (
    select
        episode_id,
        step,
        list_distinct(case when strlen(said) = length(said)
            then regexp_extract_all(said, '[a-z]{{5,}}|[0-9][0-9.,:-]*[0-9]')
            -- Each Chinese passage is cut into pairs twice, the second time from its second character on.
            else regexp_extract_all(said, '[a-z]{{5,}}|[0-9][0-9.,:-]*[0-9]|[\x{{4e00}}-\x{{9fff}}]{{2}}')
                || regexp_extract_all(
                    regexp_replace(said, '[\x{{4e00}}-\x{{9fff}}]([\x{{4e00}}-\x{{9fff}}]*)', '\1', 'g'),
                    '[\x{{4e00}}-\x{{9fff}}]{{2}}'
                )
        end) as words
    from acts
    where said is not null
),
judged as (
    select
        searches.episode_id,
        call,
        bool_or(len(list_filter(
            list_filter(words, lambda word: contains(found, word)),  -- few, and only these are looked at further
            lambda word: not contains(query, word) and not contains(coalesce(request, ''), word)
        )) > 0) as is_used
    from searches
    join uses on uses.episode_id = searches.episode_id and uses.step > searches.step
    left join requests on requests.episode_id = searches.episode_id
    group by searches.episode_id, call
)
select episode_id, count(*) filter (not is_used) as discarded
from judged
group by episode_id
having bool_or(is_used) and not bool_and(is_used)
