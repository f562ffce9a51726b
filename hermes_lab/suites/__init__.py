"""Suites of tasks, and the graders that mark what an episode came to.

`registry.open_suite` finds a suite, `graders.grade` grades an episode, `bfcl.read_bfcl` and `from_log.tasks_from_log`
bring tasks in, and `stored_files` keeps them in a lab.
"""
