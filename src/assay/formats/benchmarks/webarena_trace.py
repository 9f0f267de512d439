"""Traces of WebArena-Verified: the events of a HAR file, or of what a browser attempt recorded.

What is read is hostile: numbers and sizes are bounded, and an entry that is no event is counted as damaged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, parse_qs, parse_qsl, unquote, urlencode, urlsplit

MOST_EVENTS: Final = 20_000
"""Entries of a trace; more are not judged."""
_STATIC: Final = (".css", ".js", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".woff", ".woff2", ".ttf", ".ico", ".webp")
_MOST_BODY: Final = 4 << 20
_UNKNOWN: Final = "_unknown"
"""Key of an entry of ours: names of the parameters, and of the fields, whose values are not whole."""
_FORM: Final = "application/x-www-form-urlencoded"


class NetworkEvent(NamedTuple):
    """A request and its answer."""

    method: str
    url: str
    status: int
    headers: Mapping[str, str]
    """Headers of the request, with names in lower case."""
    post_data: Mapping[str, Any] | None
    content: Mapping[str, Any] | None
    """Body of the answer, where it is a JSON object or a form."""
    cookies: Mapping[str, str]
    unknown_parameters: frozenset[str] = frozenset()
    """Parameters of the address whose values the record does not hold whole."""
    unknown_data: frozenset[str] = frozenset()
    """Fields of the data likewise."""

    @property
    def is_page(self) -> bool:
        """True for a page that was loaded because somebody went there."""
        if self.method != "GET":
            return False
        accepts = self.headers.get("accept", "").lower()
        if "sec-fetch-user" not in self.headers:
            return accepts.startswith("text/html")
        wanted = {"sec-fetch-dest": "document", "sec-fetch-mode": "navigate", "sec-fetch-user": "?1"}
        return "text/html" in accepts and all(self.headers.get(name) == value for name, value in wanted.items())


class Trace(NamedTuple):
    """The events of a trace."""

    events: tuple[NetworkEvent, ...]
    damaged: int
    """Entries that are no event."""


def read_trace(entries: Iterable[Any]) -> Trace:
    """Returns the events of the entries of a HAR file, in their order, without those of static files."""
    events: list[NetworkEvent] = []
    damaged = 0
    for count, entry in enumerate(entries):
        event = None if count >= MOST_EVENTS else _read_event(entry)
        if event is None:
            damaged += 1
        elif not urlsplit_of(event.url).path.endswith(_STATIC):
            events.append(event)
    return Trace(tuple(events), damaged)


def entries_of(requests: Mapping[str, Any], *, hidden: str, longest: int) -> list[dict[str, Any] | None]:
    """Returns requests that a browser attempt of Assay recorded as entries of a HAR file.

    Args:
        requests: `facts["browser"]["requests"]` of the attempt. Each page counts as one that the agent went to. Where
            requests were left out, the first entry is a damaged one, so that their absence proves nothing; so is a
            request whose address is not whole. Of fields with one name the last one counts, as for the site.
        hidden: What stands in the record for a value that is not kept.
        longest: Characters from which on an address or a value may have been shortened.
    """
    listed = requests["last"]
    entries: list[dict[str, Any] | None] = [None] if requests["count"] > len(listed) else []
    for one in listed:
        lacks = one.get("lacks") or ()
        if "url" in lacks or len(one["url"]) >= longest:
            entries.append(None)
            continue
        kind = str(one.get("kind", "text/html"))
        headers = [{"name": "accept", "value": kind}]
        base, mark, query = one["url"].partition("?")
        parameters, data = dict(parse_qsl(query, keep_blank_values=True)), dict(one.get("data") or ())
        url = base + mark + urlencode(parameters)
        request = {"method": one["method"], "url": url, "headers": headers}
        if data and "data" not in lacks:
            request["postData"] = {"mimeType": _FORM, "text": urlencode(data)}
        response = {"status": one["status"], "redirectURL": "", "headers": [], "cookies": [], "content": {}}
        unknown = [
            [name for name, value in fields.items() if value == hidden or len(value) >= longest]
            for fields in (parameters, data)
        ]
        entries.append({"request": request, "response": response, _UNKNOWN: unknown})
    return entries


def _read_event(entry: Any) -> NetworkEvent | None:
    try:
        request, response = entry["request"], entry["response"]
        method, url, status = request["method"], request["url"], response["status"]
        if not (isinstance(method, str) and isinstance(url, str) and type(status) is int):
            return None
        urlsplit_of(url)
        headers = {str(one["name"]).lower(): str(one["value"]) for one in request.get("headers") or ()}
        cookies = {str(one["name"]): unquote(str(one.get("value", ""))) for one in response.get("cookies") or ()}
        bodies = _body(request.get("postData")), _body(response.get("content"))
        parameters, data = (frozenset(map(str, names)) for names in entry.get(_UNKNOWN) or ((), ()))
        return NetworkEvent(method, url, status, headers, *bodies, cookies, parameters, data)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return None


def _body(given: Any) -> Mapping[str, Any] | None:
    """Returns the fields of a body; None without any. Raises `ValueError` if it is too large."""
    kind, text = (str((given or {}).get(name) or "") for name in ("mimeType", "text"))
    if len(text) > _MOST_BODY:
        raise ValueError("a body is too large")
    if _FORM in kind:
        pairs = parse_qs(text, keep_blank_values=True, max_num_fields=10_000)
        return {name: values[0] for name, values in pairs.items()} or None
    if "application/json" in kind:
        try:
            found = json.loads(text)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None
    bound = re.search(r"multipart/form-data.*boundary=([^;\s]+)", kind)
    return _parts(text, bound[1]) or None if bound else None


def _parts(text: str, bound: str) -> dict[str, str]:
    found = {}
    for part in text.split(f"--{bound}"):
        head, _, body = part.strip().replace("\r\n", "\n").partition("\n\n")
        named = re.search(r'^content-disposition:[^\n]*?[ ;]name="([^"\n]+)"', head, re.IGNORECASE | re.MULTILINE)
        if named:
            found[named[1]] = body
    return found


def urlsplit_of(url: str) -> SplitResult:
    """Splits an address. Raises `ValueError`."""
    parts = urlsplit(url)
    _ = parts.port
    return parts
