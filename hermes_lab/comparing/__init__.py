"""Honest comparison of two versions: pairs, clusters, one endpoint, a verdict that is earned; and sequential looks."""

from hermes_lab.comparing.compare import compare
from hermes_lab.comparing.comparison import Comparison
from hermes_lab.comparing.pairing import CompareError
from hermes_lab.comparing.sequential import PairedSequence, TwoArmSequence

__all__ = ["CompareError", "Comparison", "PairedSequence", "TwoArmSequence", "compare"]
