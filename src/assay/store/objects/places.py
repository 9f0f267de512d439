"""Object stores behind URLs: buckets of S3, Google Cloud and Azure, and folders, through `obstore`. A small object of
S3 is created by a signed request of our own where that is possible (`signed_puts.py`); its failure is obstore's work.

Credentials, endpoint and region come from the variables that each vendor defines (`AWS_ENDPOINT_URL`,
`AWS_ACCESS_KEY_ID`, `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_NAME`, ...), which `obstore` reads.

Invariant: `create` reports False only for an object that exists. A conflict (409) or a failure (503, a broken
connection) is tried again; if the object exists after a failed try, whose answer may be lost, its content decides.
Covered: no error names a credential. obstore's threads are given time to drop what they hold of Python before the loop
closes after a cancellation, and before the interpreter ends: else they abort the process (35% of 60 processes that
ended with requests under way; with the wait none). Not covered: an object above 5 GiB, which S3 does not take in one
request.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from assay.errors import MissingLibraryError, StoreError, UserError

from .interface import ObjectEntry, ObjectStoreError
from .signed_puts import LostAnswerError, SignedPuts, open_signed_puts

TRIES = 6
FOLDER_TRIES = 2
"""An error of a disk does not pass by itself."""
FIRST_DELAY_S = 0.1
"""Before the second try; doubled for each later one, with a jitter of a half."""
REQUEST_TIMEOUT_S = 300
SETTLE_S = 0.05
"""Time in which obstore's threads drop what they hold of Python."""
PAGE = 1000
BUCKET_SCHEMES = ("s3", "gs", "az")
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
_HEADERS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION")
_T = TypeVar("_T")
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[^/?#@\s]+)*/?")
_QUERY = re.compile(r"(://[^\s?]*)\?\S+")
_USER = re.compile(r"(://)[^\s/?#]*@")
_CODE = re.compile(r"<Code>([A-Za-z.]{1,64})</Code>")
_BODY = re.compile(r"(status code: \d+[^:]*): .*")
"""A server may repeat a signature or a token of the request in its answer."""


def is_url(text: str) -> bool:
    """Returns whether a text names an object store by a URL, and not a folder by its path."""
    return _URL.fullmatch(text) is not None


class MissingPlaceError(UserError):
    """The folder does not exist."""


class UrlObjectStore:
    """An `ObjectStore` behind obstore. Its text is the URL."""

    def __init__(
        self, url: str, store: Any, *, open_once: Callable[[], Any] | None = None, folder: Path | None = None
    ) -> None:
        """Takes a store that repeats failed requests. A bucket, which lists its keys in order, has `open_once`, too,
        which opens one that does not repeat them: readers do not need it. A folder of objects is given as `folder`."""
        self.url = url
        self._folder = folder
        self._store = store
        self._open_once = open_once
        self._remote = open_once is not None

    def __str__(self) -> str:
        return self.url

    @cached_property
    def _once(self) -> Any:
        return self._store if self._open_once is None else self._open_once()

    @cached_property
    def _signed(self) -> SignedPuts | None:
        return open_signed_puts(self._once, REQUEST_TIMEOUT_S, self._read_tag) if self.url.startswith("s3:") else None

    async def _read_tag(self, key: str) -> str:
        """Returns an object's ETag. Raises `LostAnswerError`: after a request that may have created the object."""
        import obstore
        from obstore.exceptions import BaseError

        try:
            return (await _settled(obstore.head_async(self._store, key)))["e_tag"] or ""
        except (BaseError, OSError) as exc:
            raise LostAnswerError(_line(exc)) from None

    async def create(self, key: str, data: bytes) -> bool:
        _require_plain(key)
        failure: LostAnswerError | None = None
        for attempt in range(TRIES if self._remote else FOLDER_TRIES):
            if attempt:
                await asyncio.sleep(FIRST_DELAY_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
            try:
                created = None
                if not attempt and self._signed is not None and self._signed.accepts(key, data):
                    created = await self._signed.create(key, data)
                if created is None:
                    created = await self._put(key, data)
            except LostAnswerError as exc:
                failure = exc
            else:
                if created or await self._is_decided(key, data, failure):
                    return created
        reason = failure or "another request for the same key was under way (409) each time"
        raise self._failed("create", key, reason)

    async def _put(self, key: str, data: bytes) -> bool:
        """Sends one request. Returns False if it was refused. Raises `LostAnswerError`, `ObjectStoreError`."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError, GenericError

        try:
            await _settled(obstore.put_async(self._once, key, data, mode="create", use_multipart=False))
        except AlreadyExistsError:
            return False
        except GenericError as exc:
            raise LostAnswerError(_line(exc)) from None
        except (BaseError, OSError) as exc:
            raise self._failed("create", key, exc) from None
        return True

    async def _is_decided(self, key: str, data: bytes, failure: LostAnswerError | None) -> bool:
        """Returns whether another's object exists; a refusal without one was a conflict.

        Raises `ObjectStoreError` if a try failed and the object has the same content: it may be that try's.
        """
        try:
            existing = await (self.read(key) if failure else self.read(key, limit=0))
        except FileNotFoundError:
            return False
        except ValueError:
            return True
        if failure is None or existing != data:
            return True
        raise self._failed("create", key, f"the answer was lost, and the same content is there now; {_line(failure)}")

    async def read(self, key: str, *, limit: int | None = None, size: int | None = None) -> bytes:
        import obstore
        from obstore.exceptions import BaseError

        _require_plain(key)
        if size and (limit is None or size <= limit):
            # One step between threads, where a read of unknown size needs two: it costs a third less CPU time.
            with contextlib.suppress(FileNotFoundError, ObjectStoreError):
                data = await self.read_range(key, 0, size)
                if len(data) == size:
                    return data
        try:
            answer = await _settled(obstore.get_async(self._store, key))
            size = int(answer.meta["size"])
            too_long = limit is not None and size > limit
            data = b"" if too_long else bytes(await _settled(answer.bytes_async()))
        except FileNotFoundError:
            raise FileNotFoundError(f"{self}: {key} does not exist") from None
        except (BaseError, OSError) as exc:
            raise self._failed("read", key, exc) from None
        if too_long:
            raise ValueError(f"{self}: {key} has {size:,} bytes, more than {limit:,}")
        if len(data) != size:
            raise self._failed("read", key, f"{len(data):,} of {size:,} bytes came")
        return data

    async def read_range(self, key: str, start: int, end: int) -> bytes:
        """Reads the bytes from `start` to before `end`, or to the end of the object, if that comes before.

        Raises:
            FileNotFoundError: The object does not exist.
            ObjectStoreError: The place did not answer, or the object ends before `start`.
        """
        import obstore
        from obstore.exceptions import BaseError

        _require_plain(key)
        try:
            return bytes(await _settled(obstore.get_range_async(self._store, key, start=start, end=end)))
        except FileNotFoundError:
            raise FileNotFoundError(f"{self}: {key} does not exist") from None
        except (BaseError, OSError) as exc:
            raise self._failed("read", key, exc) from None

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ObjectEntry]]:
        import obstore
        from obstore.exceptions import BaseError, InvalidPathError

        folder = prefix.rpartition("/")[0]
        stream = obstore.list(
            self._store, folder or None, offset=after if after and self._remote else None, chunk_size=PAGE
        )
        unsorted: list[ObjectEntry] = []
        try:
            while (page := await _settled(anext(stream, None))) is not None:
                entries = [_entry(meta) for meta in page]
                wanted = [one for one in entries if one.key.startswith(prefix) and one.key > after]
                if not self._remote:
                    unsorted += wanted
                elif wanted:
                    yield wanted
        except FileNotFoundError:
            return
        except InvalidPathError as exc:  # no later answer will be another
            raise StoreError(f"{self}: an object below {folder}/ has a name that is no key: {_line(exc)}") from None
        except (BaseError, OSError) as exc:
            raise self._failed("list", prefix, exc) from None
        if unsorted:
            yield sorted(unsorted, key=lambda one: one.key)

    async def delete(self, key: str) -> None:
        import obstore
        from obstore.exceptions import BaseError

        _require_plain(key)
        self._require_inside(key)
        try:
            await _settled(obstore.delete_async(self._store, key))
        except FileNotFoundError:
            return
        except (BaseError, OSError) as exc:
            raise self._failed("delete", key, exc) from None

    def _require_inside(self, key: str) -> None:
        """Raises `StoreError` if a folder on the way to an object is a link: a file elsewhere would be deleted."""
        if self._folder is not None:
            parent = key.rpartition("/")[0]
            if (self._folder / parent).resolve() != self._folder.resolve() / parent:
                raise StoreError(f"{self}: {key} is not deleted, because a link leads there: remove the link")

    def _failed(self, verb: str, key: str, reason: object) -> ObjectStoreError:
        return ObjectStoreError(f"{self}: cannot {verb} {key or 'the objects'}: {_line(reason)}")


def open_place(url: str, *, create: bool = False) -> UrlObjectStore:
    """Opens an object store: `s3://BUCKET/PREFIX`, `gs://...`, `az://CONTAINER/PREFIX`, `file:///FOLDER` (`%20` is
    a space), or the path of a folder.

    `create` makes the folder if it is missing; a bucket must exist. `memory://` is for tests.

    Raises:
        MissingPlaceError: The folder does not exist.
        UserError: The URL is invalid or names an unknown kind.
        MissingLibraryError: obstore is not installed.
    """
    found = _URL.fullmatch(url)
    scheme, rest = ("file", url) if found is None else (found[1].lower(), found[2])
    if scheme not in (*BUCKET_SCHEMES, "file", "memory"):
        raise UserError(
            f"{scheme}:// is not a kind of object store: use s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, "
            "az://CONTAINER/PREFIX or file:///FOLDER"
        )
    try:
        from obstore import store as stores
    except ImportError as exc:
        raise MissingLibraryError(
            "a store in object storage needs obstore, which is not installed: pip install 'assay[cloud]'"
        ) from exc
    _settle_at_exit()
    if scheme == "memory":
        memory = stores.MemoryStore()
        return UrlObjectStore("memory://", memory)
    if scheme == "file":
        if found is not None and not Path(rest).is_dir():  # a folder whose name holds such a sequence goes before
            rest = unquote(rest)
        return _open_folder(rest, stores, create=create)
    if not _BUCKET.fullmatch(rest):  # it may hold a password, so it is not repeated
        raise UserError(
            f"the {scheme}:// URL is invalid: write {scheme}://BUCKET/PREFIX, without credentials, query or "
            "fragment; credentials belong in the environment"
        )
    return _open_bucket(f"{scheme}://{rest.rstrip('/')}", stores)


async def _settled(request: Awaitable[_T]) -> _T:
    """Awaits a request of obstore; one that is cancelled is given time to end while the loop is open.

    Raises as obstore documents, `OSError` for what it does not, such as a panic of its threads, and `StoreError` where
    an option of the environment takes the operation from it: no later answer will be another.
    """
    from obstore.exceptions import BaseError

    try:
        return await request
    except asyncio.CancelledError:
        await asyncio.sleep(SETTLE_S)
        raise
    except (BaseError, OSError):
        raise
    except NotImplementedError as exc:
        raise StoreError(f"the place cannot be used with the options of this environment: {_line(exc)}") from None
    except Exception as exc:
        raise OSError(f"{type(exc).__name__}: {_line(exc)}") from exc


@cache
def _settle_at_exit() -> None:
    """Lets obstore's threads finish before the interpreter ends."""
    atexit.register(time.sleep, SETTLE_S)


def _open_folder(text: str, stores: Any, *, create: bool) -> UrlObjectStore:
    folder = Path(text).expanduser().absolute()
    if text.startswith("//") or not text or "\0" in text:
        raise UserError(f"file://{text[:80]} is not a folder's URL: write file:///FOLDER")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file, not a folder of objects")
    if not create and not folder.is_dir():
        raise MissingPlaceError(f"{folder} does not exist: name a folder of objects")
    if next(folder.glob("runs/*/manifest.json"), None) is not None:
        raise UserError(f"{folder} is a store, whose `assay gc` would delete objects: name another folder")
    from obstore.exceptions import BaseError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        local = stores.LocalStore(folder)
    except (BaseError, OSError) as exc:
        raise UserError(f"{folder} cannot be used as a folder of objects: {_line(exc)}") from None
    return UrlObjectStore(folder.as_uri(), local, folder=folder)


def _open_bucket(url: str, stores: Any) -> UrlObjectStore:
    from obstore.exceptions import BaseError

    if url.startswith("s3:"):
        _require_usable_environment()
    options = {"timeout": timedelta(seconds=REQUEST_TIMEOUT_S), "allow_http": True}  # the endpoint says which
    backoff = {"init_backoff": timedelta(seconds=FIRST_DELAY_S), "max_backoff": timedelta(seconds=5), "base": 2}

    def connect(retries: int) -> Any:
        config = {"max_retries": retries, "retry_timeout": timedelta(seconds=60), "backoff": backoff}
        try:
            return stores.from_url(url, client_options=options, retry_config=config)
        except (BaseError, OSError, ValueError) as exc:
            raise UserError(f"{url} cannot be opened: {_line(exc)}") from None

    return UrlObjectStore(url, connect(TRIES - 1), open_once=lambda: connect(0))


def _require_usable_environment() -> None:
    """Raises `UserError` for a variable of which no request can be made: obstore's threads would panic."""
    for name in _ENDPOINTS:
        if name in os.environ and not _is_server(os.environ[name]):  # it may hold a password, so it is not repeated
            raise UserError(f"{name} is no address of a server: write http://HOST:PORT or https://HOST, or unset it")
    for name in _HEADERS:
        value = os.environ.get(name, "")
        if not (value.isascii() and value.isprintable()):
            raise UserError(f"{name} holds a line break, or another character that no header may hold: set it again")


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        return is_address and url.isprintable() and " " not in url
    except ValueError:  # of the port
        return False


def _entry(meta: Any) -> ObjectEntry:
    return ObjectEntry(meta["path"], int(meta["size"]), meta["last_modified"].timestamp())


def _require_plain(key: str) -> None:
    path = f"/{key}/"
    if "//" in path or "/./" in path or "/../" in path:
        raise ValueError(f"{key!r} is not a key: use plain segments joined by /")


def _line(reason: object) -> str:
    """Returns the first line of an error, without the body of the answer, and without users, passwords and queries of
    URLs, which may be signed."""
    text = str(reason).strip() or type(reason).__name__
    code = _CODE.search(text)
    line = _USER.sub(r"\1", _QUERY.sub(r"\1", _BODY.sub(r"\1", text.splitlines()[0].partition(": <")[0])))
    return line if code is None else f"{line} ({code[1]})"
