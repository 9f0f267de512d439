"""Judging pytest tests from outside: the tests and the original package run in one sandbox, what the agent wrote in
another, and functions that the task's plan names are called across two pipes.

The programs of both sides are in `verify.payload`; `run` opens the sandboxes and joins them.
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
