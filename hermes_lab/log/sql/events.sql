-- The view that people query: every committed event exactly once, with long payloads read back from beside the log.
-- The columns stand in the order of the schema; the rows are the sealed segments together with the live files.
create view {name} as
select
    {columns}
from {rows}
