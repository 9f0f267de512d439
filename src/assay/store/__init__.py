"""Where trajectories live: append, read, query, seal, and the hash chain."""

from .addenda import Addendum, addenda, append_addendum
from .annotate import AUDITED, annotate, annotate_all, learnt, standing, standing_of
from .audit import audit
from .blobs import BlobStore
from .calls import BodyKeeper, Cleaned, answer_of, messages_of, prompt_ids_of, rebuild, request_of
from .chain import BrokenLink, Link, heads_digest, link, verify_chain, verify_links
from .gc import GcReport, gc
from .layout import Layout, list_runs, newest_run
from .problem import Problem
from .query import Bounds, QueryResult, query
from .receipt import Coverage, Receipt, check_receipt, make_receipt, read_receipt, write_receipt
from .row_check import CheckedRows, check_rows
from .rows import ADMISSION, AttemptRow, deciding
from .run import RunStore
from .seal import SealReport, seal
from .search import Hit, search
from .signing import new_key, public_key
from .trees import LISTING, KeptTree, TreeFile, TreeTooLarge, keep_tree, listed, read_tree, write_tree

__all__ = [
    "ADMISSION",
    "AUDITED",
    "LISTING",
    "Addendum",
    "AttemptRow",
    "BlobStore",
    "BodyKeeper",
    "Bounds",
    "BrokenLink",
    "CheckedRows",
    "Cleaned",
    "Coverage",
    "GcReport",
    "Hit",
    "KeptTree",
    "Layout",
    "Link",
    "Problem",
    "QueryResult",
    "Receipt",
    "RunStore",
    "SealReport",
    "TreeFile",
    "TreeTooLarge",
    "addenda",
    "annotate",
    "annotate_all",
    "answer_of",
    "append_addendum",
    "audit",
    "check_receipt",
    "check_rows",
    "deciding",
    "gc",
    "heads_digest",
    "keep_tree",
    "learnt",
    "link",
    "list_runs",
    "listed",
    "make_receipt",
    "messages_of",
    "new_key",
    "newest_run",
    "prompt_ids_of",
    "public_key",
    "query",
    "read_receipt",
    "read_tree",
    "rebuild",
    "request_of",
    "seal",
    "search",
    "standing",
    "standing_of",
    "verify_chain",
    "verify_links",
    "write_receipt",
    "write_tree",
]
