"""The durable truth of a run on many machines: create-only objects in a folder or a bucket."""

from .check import ObjectCheckReport, check_place
from .collect import CollectReport, collect_objects
from .create_only import require_create_only
from .fetch import fetch_run, fetch_runs
from .index import IndexEntry, RunIndex, append_manifest, list_published, read_index
from .interface import ObjectEntry, ObjectStore, ObjectStoreError
from .places import MissingPlaceError, UrlObjectStore, is_url, open_place
from .publish import GRACE_S, CopyReport, Publisher
from .query_place import query_place

__all__ = [
    "GRACE_S",
    "CollectReport",
    "CopyReport",
    "IndexEntry",
    "MissingPlaceError",
    "ObjectCheckReport",
    "ObjectEntry",
    "ObjectStore",
    "ObjectStoreError",
    "Publisher",
    "RunIndex",
    "UrlObjectStore",
    "append_manifest",
    "check_place",
    "collect_objects",
    "fetch_run",
    "fetch_runs",
    "is_url",
    "list_published",
    "open_place",
    "query_place",
    "read_index",
    "require_create_only",
]
