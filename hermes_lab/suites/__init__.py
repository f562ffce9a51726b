"""Suites of tasks, and the graders that mark what an episode came to."""
