"""Stores trajectories: append, read, query, seal, and the hash chain."""

from .addenda import Addendum, addenda, append_addendum
from .annotate import AUDITED, annotate, annotate_all, current_verdicts_by_chain, later_events, load_current_verdicts
from .audit import audit, chain_problems
from .blobs import BlobStore
from .calls import (
    BodyDeltaEncoder,
    RedactedBytes,
    assistant_message,
    restore_body,
    restore_messages,
    restore_prompt_ids,
    restore_request,
)
from .chain import BrokenLink, Link, StoreProblem, decode_body, heads_digest, verify_links
from .erase import Erasure, ErasureReport, erase_blob, erasures, list_erasures
from .gc import GcReport, gc
from .layout import Layout, list_runs, newest_run
from .query import QueryLimits, QueryResult, query
from .receipt import Receipt, ReceiptCoverage, check_receipt, make_receipt, read_receipt, write_receipt
from .redrawn import redrawn_chains
from .row_check import CheckedRows, check_rows
from .rows import ADMISSION, AttemptRow, final_rows
from .run import RunStore
from .seal import SealReport, seal
from .search import Hit, search
from .signing import new_key, public_key
from .trees import LISTING, StoredTree, TreeFile, TreeTooLarge, listed_addresses, read_tree, store_tree, write_tree

__all__ = [
    "ADMISSION",
    "AUDITED",
    "LISTING",
    "Addendum",
    "AttemptRow",
    "BlobStore",
    "BodyDeltaEncoder",
    "BrokenLink",
    "CheckedRows",
    "Erasure",
    "ErasureReport",
    "GcReport",
    "Hit",
    "Layout",
    "Link",
    "QueryLimits",
    "QueryResult",
    "Receipt",
    "ReceiptCoverage",
    "RedactedBytes",
    "RunStore",
    "SealReport",
    "StoreProblem",
    "StoredTree",
    "TreeFile",
    "TreeTooLarge",
    "addenda",
    "annotate",
    "annotate_all",
    "append_addendum",
    "assistant_message",
    "audit",
    "chain_problems",
    "check_receipt",
    "check_rows",
    "current_verdicts_by_chain",
    "decode_body",
    "erase_blob",
    "erasures",
    "final_rows",
    "gc",
    "heads_digest",
    "later_events",
    "list_erasures",
    "list_runs",
    "listed_addresses",
    "load_current_verdicts",
    "make_receipt",
    "new_key",
    "newest_run",
    "public_key",
    "query",
    "read_receipt",
    "read_tree",
    "redrawn_chains",
    "restore_body",
    "restore_messages",
    "restore_prompt_ids",
    "restore_request",
    "seal",
    "search",
    "store_tree",
    "verify_links",
    "write_receipt",
    "write_tree",
]
