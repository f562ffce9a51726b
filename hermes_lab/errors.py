"""Errors that a user can meet, each with the exit code that the command line ends with.

A message says what was wrong, where, and what to do. The codes follow BSD's `sysexits.h`; 2 to 5 are kept
free for reports (regression, breakage, timeout, dead kernel).
"""

from __future__ import annotations


class HermesLabError(Exception):
    """The base of every error that hermes-lab raises on purpose.

    Attributes:
        exit_code: what the command line exits with when this error reaches it.
    """

    exit_code = 70


class EventError(HermesLabError, ValueError):
    """An event, or a value in it, that the log refuses; the message names the field."""

    exit_code = 65


class QueryError(HermesLabError):
    """SQL that does not run, or that asks for more than reading the lab."""

    exit_code = 65


class ImportFormatError(HermesLabError):
    """A file that no importer (or not the named one) can read, or in which nothing was found."""

    exit_code = 65


class CorruptLogError(HermesLabError):
    """The log on disk contradicts itself: a broken manifest, a lost or changed segment."""

    exit_code = 65


class MissingError(HermesLabError):
    """A file, lab or id that is not there."""

    exit_code = 66


class WriteError(HermesLabError):
    """The disk took less than was asked (full, quota, vanished); nothing acknowledged was lost."""

    exit_code = 74


class BusyError(HermesLabError):
    """Another process holds the lock that this step needs; trying again later can help."""

    exit_code = 75


class PermissionDeniedError(HermesLabError):
    """The operating system does not let us read or write there."""

    exit_code = 77


class ConfigError(HermesLabError):
    """A `lab.toml` that cannot be read or holds a wrong value, or a lab of a newer hermes-lab."""

    exit_code = 78
