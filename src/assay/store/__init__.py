"""Where trajectories live: append, read, query, seal, and the hash chain."""

from .blobs import BlobStore
from .chain import BrokenLink, link, verify_chain
from .layout import Layout, list_runs, newest_run
from .rows import AttemptRow, worst_outcome
from .run import RunStore

__all__ = [
    "AttemptRow",
    "BlobStore",
    "BrokenLink",
    "Layout",
    "RunStore",
    "link",
    "list_runs",
    "newest_run",
    "verify_chain",
    "worst_outcome",
]
