"""Where trajectories live: append, read, query, seal, and the hash chain."""

from .addenda import Addendum, addenda, append_addendum
from .annotate import REVERIFY, Standing, annotate, annotate_all, learnt, standing
from .audit import audit
from .blobs import BlobStore
from .calls import BodyKeeper, Cleaned, answer_of, messages_of, prompt_ids_of, rebuild, request_of
from .chain import BrokenLink, Link, heads_digest, link, verify_chain, verify_links
from .gc import GcReport, gc
from .layout import Layout, list_runs, newest_run
from .problem import Problem
from .query import Bounds, QueryResult, query
from .rows import AttemptRow, worst_outcome
from .run import RunStore
from .seal import SealReport, seal
from .search import Hit, search
from .trees import LISTING, KeptTree, TreeFile, TreeTooLarge, keep_tree, listed, read_tree, write_tree

__all__ = [
    "LISTING",
    "REVERIFY",
    "Addendum",
    "AttemptRow",
    "BlobStore",
    "BodyKeeper",
    "Bounds",
    "BrokenLink",
    "Cleaned",
    "GcReport",
    "Hit",
    "KeptTree",
    "Layout",
    "Link",
    "Problem",
    "QueryResult",
    "RunStore",
    "SealReport",
    "Standing",
    "TreeFile",
    "TreeTooLarge",
    "addenda",
    "annotate",
    "annotate_all",
    "answer_of",
    "append_addendum",
    "audit",
    "gc",
    "heads_digest",
    "keep_tree",
    "learnt",
    "link",
    "list_runs",
    "listed",
    "messages_of",
    "newest_run",
    "prompt_ids_of",
    "query",
    "read_tree",
    "rebuild",
    "request_of",
    "seal",
    "search",
    "standing",
    "verify_chain",
    "verify_links",
    "worst_outcome",
    "write_tree",
]
