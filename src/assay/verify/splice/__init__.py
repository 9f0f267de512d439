"""Judges pytest tests from outside: the tests and the original package run in one sandbox, the agent's package in
another, and the functions of the task's plan are called across two pipes.

The programs of both sandboxes are in `verify.payload`; `run` opens the sandboxes and joins them.
"""

from .run import PROGRAMS, NotJoinable, SplicedRun, SpliceRequest, compare_collection, configure_splice, run_spliced

__all__ = [
    "PROGRAMS",
    "NotJoinable",
    "SpliceRequest",
    "SplicedRun",
    "compare_collection",
    "configure_splice",
    "run_spliced",
]
