"""Whether a new memory or skill contradicts, duplicates or supersedes one that stands; nothing is merged here."""

from hermes_lab.conflicts.finding import Conflict, Judge, Kind, Statement, compare, contradicts, find, find_in_texts

__all__ = ["Conflict", "Judge", "Kind", "Statement", "compare", "contradicts", "find", "find_in_texts"]
