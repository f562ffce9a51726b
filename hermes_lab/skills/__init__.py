"""Skills: folders with a `SKILL.md`, read as others write them, triggered by words, checked as a library.

What enters a context is `fit(library.triggered(request), budget)`; what a library lacks is found by `checks`.
"""

from hermes_lab.skills.front_matter import SkillError
from hermes_lab.skills.library import Fitted, Library, Triggered, fit, library_of, standing
from hermes_lab.skills.skill import Needs, Skill, read_skill

__all__ = [
    "Fitted",
    "Library",
    "Needs",
    "Skill",
    "SkillError",
    "Triggered",
    "fit",
    "library_of",
    "read_skill",
    "standing",
]
