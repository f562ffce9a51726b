"""History again, without a model: recorded episodes under their own configuration, or under another one.

`replay` drives the loop from the log; `bulk` takes a rule of routing, permissions or checks over millions of calls.
"""

from hermes_lab.replay.changes import ChangeKind, MismatchKind, Verdict
from hermes_lab.replay.replay import After, replay
from hermes_lab.replay.report import EpisodeReplay, NotReplayed, Replay

__all__ = [
    "After",
    "ChangeKind",
    "EpisodeReplay",
    "MismatchKind",
    "NotReplayed",
    "Replay",
    "Verdict",
    "replay",
]
