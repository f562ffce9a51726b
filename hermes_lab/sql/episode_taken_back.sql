-- Calls that were taken back later: a person went back to an earlier turn. To fill in: events, the view to read.
select parent_id from {events} where status = 'retracted' and parent_id is not null
