"""Requests that the pages of an attempt made, with their answers: the network events of its record.

Covered: numbers and sizes are bounded, and what was left out is counted or named. Values of fields whose names say that
they are secret (passwords, tokens, keys) are not kept, neither of forms nor of addresses; headers and cookies never
are, nor are contents of files and bodies that are no form. Style sheets and other files that a page loads are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlencode

import msgspec

from assay.environments.services.pages.multipart import MULTIPART, read_multipart
from assay.http.messages import RequestHead, Response

MOST_REQUESTS: Final = 200
"""Requests that are kept: the last ones."""
MOST_FIELDS: Final = 30
"""Fields of a form that are kept."""
LONGEST: Final = 300
"""Characters of an address or a value."""
_SECRET: Final = re.compile(
    r"passw|passphrase|passcode|secret|token|api.?key|credential|authori[sz]ation|"
    r"(?<![a-z])(pass|pwd|pin|cvv|cvc|otp|csrf|session.?id|card.?number)(?![a-z])",
    re.IGNORECASE,
)
HIDDEN: Final = "[not kept]"
"""Stands for the value of a secret."""
_PAGES: Final = ("text/html", "application/json")
_FORM: Final = "application/x-www-form-urlencoded"


class RecordedRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request and its answer."""

    method: str
    url: str
    status: int
    kind: str = "text/html"
    """Type of the answer."""
    data: tuple[tuple[str, str], ...] = ()
    """Fields of the form that was sent, in their order; files last, by their names."""
    lacks: tuple[Literal["url", "data"], ...] = ()
    """Parts of which something is missing: the end of an address, or fields. Any text that was shortened has 300
    characters and ends with `…`; single values are not listed here."""


class RequestLog:
    """The requests of one attempt."""

    def __init__(self, count: int = 0, listed: Sequence[RecordedRequest] = ()) -> None:
        self.count, self.listed = count, list(listed)

    def add(self, origin: str, head: RequestHead, body: bytes, response: Response) -> None:
        """Adds a request; one for a file that pages load is left out."""
        kind = response.headers.get("Content-Type", _PAGES[0]).partition(";")[0]  # a redirection has no type
        if kind not in _PAGES:
            return
        path, mark, query = head.target.partition("?")
        address = origin + path + (mark + urlencode(_redacted(query)) if mark else "")
        sent = head.headers.get("content-type", _FORM).partition(";")[0].strip().lower()
        data: tuple[tuple[str, str], ...] = ()
        if head.method != "GET" and sent == _FORM:
            data = _redacted(body.decode("utf-8", "replace"))
        elif head.method != "GET" and sent == MULTIPART:
            data = _fields_of(head.headers.get("content-type", ""), body)
        lacks: list[Literal["url", "data"]] = []
        if len(address) > LONGEST or query.count("&") >= MOST_FIELDS:
            lacks.append("url")
        if len(data) > MOST_FIELDS:
            lacks.append("data")
        self.count += 1
        kept = RecordedRequest(head.method, _cut(address), response.status, kind, data[:MOST_FIELDS], tuple(lacks))
        self.listed.append(kept)
        del self.listed[:-MOST_REQUESTS]

    def facts(self) -> dict[str, Any]:
        """Returns the requests as data."""
        return {"count": self.count, "last": msgspec.to_builtins(self.listed)}


def _fields_of(content_type: str, body: bytes) -> tuple[tuple[str, str], ...]:
    """Returns the fields of a form with files, and one more than are kept; of a file, its name."""
    try:
        form = read_multipart(content_type, body)
    except ValueError:
        return ()
    pairs = [*form.pairs, *((upload.field, upload.name) for upload in form.uploads)]
    return tuple(_shorten(name, value) for name, value in pairs[: MOST_FIELDS + 1])


def _redacted(text: str) -> tuple[tuple[str, str], ...]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=10_000)
    except ValueError:
        return ()
    return tuple(_shorten(name, value) for name, value in pairs[: MOST_FIELDS + 1])


def _shorten(name: str, value: str) -> tuple[str, str]:
    """Returns a field as it is kept; a value may be an address with a secret of its own."""
    value = _cut(value)  # before it is searched
    is_secret = _SECRET.search(name) or any(_SECRET.search(part) for part in re.findall(r"[?&;]([^=&;]{1,80})=", value))
    return _cut(name), HIDDEN if is_secret else value


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
