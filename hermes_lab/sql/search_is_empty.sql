-- Whether a search found nothing: an empty value, or an object whose one list is empty. An expression over `output`.
-- (What found something is longer, most of the time, and then not looked through.)
strlen(coalesce(output, 'null')) <= 200 and regexp_full_match(
    coalesce(output, 'null'),
    '\s*(null|""|\[\s*\]|\{\s*\}|\{[^\[\]{}]*:\s*\[\s*\][^\[\]{}]*\})\s*'
)
