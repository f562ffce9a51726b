-- A reply of the strong model, where there is one: without any, no grader can have asked it. To fill in: events, the view
-- to read.
select 1 from {events} where action = 'generation' and tier = 'strong'
