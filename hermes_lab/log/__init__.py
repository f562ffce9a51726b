"""The event log: append-only, JSON lines while fresh and Parquet at rest, queried with DuckDB."""

from hermes_lab.log.log import Log, LogSettings
from hermes_lab.log.writer import Writer, new_id

__all__ = ["Log", "LogSettings", "Writer", "new_id"]
