"""Creates small objects in a bucket of S3 by a request of the event loop's own, signed here.

obstore carries each request to a thread of its own and its answer back, which costs more CPU time than the request: a
small object takes half of it this way (`benchmarks/place.py`). obstore still says where a bucket is (endpoint, region,
path or host), and whatever is not settled here is asked again by it.

Covered: the signature (AWS Signature Version 4, in headers) is over the content and the condition, too, so that a
request that is seen on the way cannot be sent again with others; an answer counts as this request's by the tag of its
object (ETag), since a server or proxy that repeats one answer gives each later request the one before. Not covered,
left to obstore: credentials that are fetched (roles, containers), options of S3 in the environment other than those
named here, and proxies.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from assay.http.client import HttpClient

MOST_BYTES = 1 << 18
"""A larger object is hashed and sent by obstore's threads, and does not hold up the event loop."""
CONNECT_S = 5.0
MOST_ANSWER_BYTES = 1 << 16
ALGORITHM = "AWS4-HMAC-SHA256"
_CREDENTIALS = _KEY_ID, _SECRET, _SESSION = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_LOCATION = {
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    *("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "AWS_ALLOW_HTTP"),
}
"""Options that say which bucket is meant: what obstore makes of them is read from a URL that it signs."""
_PLAIN_KEY = re.compile(r"[A-Za-z0-9._@=/-]+")
"""Keys whose characters obstore leaves as they are."""
_PRINTABLE = re.compile(r"[!-~]+")
_CODE = re.compile(rb"<Code>([A-Za-z.]{1,64})</Code>")


class LostAnswerError(Exception):
    """The object may have been created."""


class Credentials(NamedTuple):
    """A key of S3. Its text does not show the secret."""

    key_id: str
    secret: str
    session: str | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.key_id!r})"


class Bucket(NamedTuple):
    """Where objects lie: an origin (`https://HOST`), the path before their keys, and the region."""

    origin: str
    path: str
    region: str


class SignedPuts:
    """Creates objects in one bucket. It may be used in several event loops; each has its own connections.

    `read_tag` returns the ETag of an object.
    """

    def __init__(
        self, bucket: Bucket, credentials: Credentials, exchange_s: float, read_tag: Callable[[str], Awaitable[str]]
    ) -> None:
        self._bucket, self._exchange_s, self._read_tag = bucket, exchange_s, read_tag
        self._signer = Signer(credentials, bucket.region)
        self._names, self._session = "host;if-none-match;x-amz-content-sha256;x-amz-date", ""
        if credentials.session is not None:
            self._names += ";x-amz-security-token"
            self._session = f"x-amz-security-token:{credentials.session}\n"
        self._clients: dict[asyncio.AbstractEventLoop, tuple[HttpClient, AsyncGenerator[HttpClient, None]]] = {}
        self._is_usable = True

    def accepts(self, key: str, data: bytes) -> bool:
        """Returns whether `create` is for this object."""
        return self._is_usable and len(data) <= MOST_BYTES and _PLAIN_KEY.fullmatch(key) is not None

    async def create(self, key: str, data: bytes) -> bool | None:
        """Creates an object if its key is free.

        Returns False if the server refused, because the key exists or another request for it is under way; None if no
        request was sent, because the server could not be reached.

        Raises:
            LostAnswerError: The server was busy, did not answer, or understood the request otherwise; then later ones
                are obstore's.
        """
        held = self._clients.get(asyncio.get_running_loop())
        client = await self._open_client() if held is None else held[0]
        exchange = client.send(self._head(client.host, key, data), data)
        try:
            status, text, headers = await exchange.read_response()
        except (OSError, ValueError) as exc:
            self._is_usable &= not isinstance(exc, ssl.SSLError)  # obstore may trust the certificate
            if not exchange.is_sent:
                return None
            raise LostAnswerError(f"{type(exc).__name__}: {exc}") from None
        if 200 <= status < 300:
            tag = next((value for name, value in headers if name.lower() == b"etag"), b"").decode("latin-1")
            if await self._is_tag_of(tag, key, data):
                return True
            raise LostAnswerError(f"Server returned {status}, without the ETag of the object")
        if status in (409, 412):
            return False
        self._is_usable &= status >= 500 or status in (408, 429)
        code = _CODE.search(text)
        raise LostAnswerError(f"Server returned {status}" + (f" ({code[1].decode()})" if code else ""))

    async def _is_tag_of(self, tag: str, key: str, data: bytes) -> bool:
        """Returns whether an answer has the tag of this object. Without a tag it is from something that stored nothing,
        such as a portal."""
        if tag.strip('"') == hashlib.md5(data, usedforsecurity=False).hexdigest():
            return True
        self._is_usable = False  # a bucket whose tags are no digests (encryption by KMS), or another object's answer
        return tag != "" and tag == await self._read_tag(key)

    def _head(self, host: str, key: str, data: bytes) -> bytes:
        """Returns the first line and the headers of a request. All headers are signed as they are sent."""
        target = self._bucket.path + key.replace("@", "%40").replace("=", "%3D")
        stamp = _stamp(int(time.time()))
        digest = hashlib.sha256(data).hexdigest()
        headers = f"host:{host}\nif-none-match:*\nx-amz-content-sha256:{digest}\nx-amz-date:{stamp}\n{self._session}"
        signed = f"PUT\n{target}\n\n{headers}\n{self._names}\n{digest}"
        headers += f"authorization:{self._signer.authorization(stamp, self._names, signed)}\n"
        return f"PUT {target} HTTP/1.1\n{headers}".replace("\n", "\r\n").encode()

    async def _open_client(self) -> HttpClient:
        for loop in list(self._clients):
            if loop.is_closed():  # without `shutdown_asyncgens`
                self._clients.pop(loop, None)
        generator = self._client()
        client = await anext(generator)
        self._clients[asyncio.get_running_loop()] = client, generator
        return client

    async def _client(self) -> AsyncGenerator[HttpClient, None]:
        """Yields a client, and closes it when the loop shuts down: a loop ends the generators that were begun in it."""
        from assay.http.client import ClientLimits, HttpClient

        limits = ClientLimits(CONNECT_S, self._exchange_s, MOST_ANSWER_BYTES)
        client = HttpClient(self._bucket.origin, {}, limits, self._tls)
        try:
            yield client
        finally:
            self._clients.pop(asyncio.get_running_loop(), None)
            await client.close()
            await asyncio.sleep(0)  # the connections end in the loop's next turn

    @cached_property
    def _tls(self) -> ssl.SSLContext | None:
        """Trusted authorities, for HTTPS alone: reading them takes milliseconds."""
        if not self._bucket.origin.startswith("https:"):
            return None
        return ssl.create_default_context()


class Signer:
    """AWS Signature Version 4 for S3, in headers.

    Source: "Authenticating Requests: Using the Authorization Header" in the API reference of Amazon S3.
    """

    def __init__(self, credentials: Credentials, region: str) -> None:
        self._key_id, self._secret, self._region = credentials.key_id, credentials.secret, region
        self._day_hmac: tuple[str, hmac.HMAC] | None = None
        """A day and the HMAC with its key: one value, since several threads may sign while a day begins."""

    def authorization(self, stamp: str, names: str, request: str) -> str:
        """Returns the header `Authorization` of a canonical request with these signed headers.

        `stamp` is its time, such as `20261130T115500Z`, and `names` are lower case, sorted and joined by `;`.
        """
        scope = f"{stamp[:8]}/{self._region}/s3/aws4_request"
        text = f"{ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = self._hmac_of(stamp[:8])
        signature.update(text.encode())
        return f"{ALGORITHM} Credential={self._key_id}/{scope},SignedHeaders={names},Signature={signature.hexdigest()}"

    def _hmac_of(self, day: str) -> hmac.HMAC:
        """Returns a new HMAC with the key of a day."""
        day_hmac = self._day_hmac
        if day_hmac is None or day != day_hmac[0]:
            key = f"AWS4{self._secret}".encode()
            for part in (day, self._region, "s3", "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._day_hmac = day_hmac = day, hmac.new(key, digestmod="sha256")
        return day_hmac[1].copy()


@lru_cache(maxsize=1)
def _stamp(now_s: int) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))


def open_signed_puts(store: Any, exchange_s: float, read_tag: Callable[[str], Awaitable[str]]) -> SignedPuts | None:
    """Opens the bucket of an `S3Store` for the creation of small objects; None where that is left to obstore.

    A request takes at most `exchange_s` seconds. `read_tag` is as in `SignedPuts`.
    """
    environment = os.environ
    others = [name for name in environment if name.startswith("AWS_") and name not in {*_LOCATION, *_CREDENTIALS}]
    if any(_is_option(name, environment[name]) for name in others):
        return None
    credentials = Credentials(environment.get(_KEY_ID, ""), environment.get(_SECRET, ""), environment.get(_SESSION))
    if not all(_PRINTABLE.fullmatch(text) for text in credentials if text is not None):
        return None
    bucket = _locate(store, credentials.key_id)
    if bucket is None or _has_proxy():
        return None
    return SignedPuts(bucket, credentials, exchange_s, read_tag)


def _is_option(name: str, value: str) -> bool:
    """Returns whether obstore reads an environment variable; other programs have some of the same prefix."""
    from obstore.exceptions import BaseError, UnknownConfigurationKeyError
    from obstore.store import S3Store

    try:
        S3Store("bucket", config={name.lower(): value})
    except UnknownConfigurationKeyError:
        return False
    except (BaseError, ValueError):
        pass
    return True


def _locate(store: Any, key_id: str) -> Bucket | None:
    """Reads where a bucket is from a URL that obstore signs; None if it signs with another key."""
    import obstore
    from obstore.exceptions import BaseError

    try:
        url = urlsplit(obstore.sign(store, "PUT", "key", timedelta(minutes=1)))
    except (BaseError, OSError, ValueError):
        return None
    signed_by, _, scope = parse_qs(url.query).get("X-Amz-Credential", [""])[0].partition("/")
    day_region_service = scope.split("/")
    if signed_by != key_id or len(day_region_service) != 4 or day_region_service[2] != "s3":
        return None
    if url.scheme not in ("http", "https") or url.username is not None or not url.path.endswith("/key"):
        return None
    if not _PRINTABLE.fullmatch(day_region_service[1]):  # it is part of a header
        return None
    return Bucket(f"{url.scheme}://{url.netloc}", url.path.removesuffix("key"), day_region_service[1])


def _has_proxy() -> bool:
    """Returns whether a proxy is set, whichever servers it is for: the rules for exceptions are obstore's."""
    from urllib.request import getproxies  # late: imports the modules of mail

    names = {name.lower() for name, value in os.environ.items() if value}
    return bool(names & {"http_proxy", "https_proxy", "all_proxy"} or getproxies().keys() - {"no"})
