"""Evaluators of network events of WebArena-Verified: judges what a browser asked of the sites, from a recorded trace.

An event is a request with its answer. The events that an evaluator is about are those of its method and address; of a
task that navigates, the last page that was loaded. The last of them (or any, where the evaluator says so) must have the
wanted address, parameters, status, headers, data, content and cookies. Absent ones fail, unless none was wanted.

Covered: entries of HAR files. A damaged entry may have been any event, so with one nothing passes. What is compared is
bounded; what cannot be compared is `Uncovered`, never a pass. Not covered: traces of Playwright, SSH addresses.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, parse_qs, unquote, urlencode, urlsplit, urlunsplit

import msgspec

from .webarena_values import (
    Uncovered,
    equal_lists,
    equal_values,
    is_pattern,
    kind_of,
    matches,
)

MOST_EVENTS: Final = 20_000
"""Entries of a trace; more are not judged."""
_STATIC: Final = (".css", ".js", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".woff", ".woff2", ".ttf", ".ico", ".webp")
_MOST_BODY: Final = 4 << 20
_FORM: Final = "application/x-www-form-urlencoded"
_PATH: Final = re.compile(
    r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d{1,6})\]|\['(?P<quoted>[^']+)'\]"
    r"|\[\?\(@\.(?P<field>\w+)\s*==\s*(?P<value>\d+|'[^']*')\)\]"
)


class NetworkSpec(msgspec.Struct, frozen=True):
    """What an event must have."""

    url: str | tuple[str, ...]
    headers: dict[str, Any] | None = None
    query_params: dict[str, Any] | None = None
    post_data: dict[str, Any] | None = None
    response_content: dict[str, Any] | None = None
    response_status: int = 200
    http_method: str = "GET"
    response_cookies: dict[str, Any] | None = None


class NetworkEvaluator(msgspec.Struct, frozen=True, tag_field="evaluator", tag="NetworkEventEvaluator"):
    """An evaluator of network events."""

    expected: NetworkSpec
    last_event_only: bool = True
    ignored_query_params: tuple[str, ...] = ()
    ignored_query_params_patterns: tuple[str, ...] = ()
    decode_base64_query: bool = False
    query_params_schema: dict[str, Any] | None = None
    post_data_schema: dict[str, Any] | None = None
    ignored_post_data_params_patterns: tuple[str, ...] = ()
    should_not_exist: bool = False


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


class Address(NamedTuple):
    """An address, with the template of its site in place of the site's own address."""

    base: str
    query: Mapping[str, Sequence[Any]]
    is_pattern: bool


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


def entries_of(requests: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns requests that a browser attempt of Assay recorded as entries of a HAR file.

    Args:
        requests: `facts["browser"]["requests"]["last"]` of the attempt. Each page counts as one that the agent went to.
    """
    entries = []
    for one in requests:
        kind = str(one.get("kind", "text/html"))
        headers = [{"name": "accept", "value": kind}]
        request = {"method": one["method"], "url": one["url"], "headers": headers}
        if one.get("data"):
            request["postData"] = {"mimeType": _FORM, "text": urlencode([tuple(pair) for pair in one["data"]])}
        response = {"status": one["status"], "redirectURL": "", "headers": [], "cookies": [], "content": {}}
        entries.append({"request": request, "response": response})
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
        return NetworkEvent(
            method, url, status, headers, _body(request.get("postData")), _body(response.get("content")), cookies
        )
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


def judge_network(
    evaluator: NetworkEvaluator, trace: Trace, bases: Mapping[str, Sequence[str]], *, navigates: bool
) -> str:
    """Returns why the events are not what an evaluator demands; empty if they are.

    Args:
        evaluator: The evaluator.
        trace: The events.
        bases: Addresses of each site of the task, by its template (`__SHOPPING__`); the first one is in use.
        navigates: True if the task is to navigate somewhere.

    Raises:
        Uncovered: It cannot be decided.
    """
    return _Judge(evaluator, bases).judge(trace, navigates=navigates)


class _Judge:
    def __init__(self, evaluator: NetworkEvaluator, bases: Mapping[str, Sequence[str]]) -> None:
        self._config, self._wanted, self._bases = evaluator, evaluator.expected, bases
        self._urls = self._wanted_addresses(self._wanted.url)

    def judge(self, trace: Trace, *, navigates: bool) -> str:
        found = self._about(trace.events, navigates=navigates)
        if self._config.should_not_exist:
            if trace.damaged and not found:
                raise Uncovered(f"{trace.damaged} entries of the trace are damaged")
            return "a request was made that must not be" if found else ""
        chosen = found[-1:] if self._config.last_event_only or navigates else found
        reasons = [self._difference(event) for event in chosen]
        if "" in reasons:
            if trace.damaged:
                raise Uncovered(f"{trace.damaged} entries of the trace are damaged")
            return ""
        where = str(self._wanted.url)[:200]
        if reasons:
            return f"{self._wanted.http_method} {where}: {reasons[-1]}"
        return f"no request {self._wanted.http_method} {where}"

    def _about(self, events: Sequence[NetworkEvent], *, navigates: bool) -> list[NetworkEvent]:
        """Returns the events that the evaluator is about."""
        if navigates and self._wanted.http_method == "GET":
            return [event for event in events if event.is_page][-1:]
        referer = (self._wanted.headers or {}).get("referer")
        referers = self._wanted_addresses(referer) if referer else []
        found = []
        for event in events:
            if event.method.lower() != self._wanted.http_method.lower():
                continue
            if not any(self._same_base(one, self._address(event.url)) for one in self._urls):
                continue
            sent = event.headers.get("referer")
            if sent and referers and not any(self._same_base(one, self._address(sent)) for one in referers):
                continue
            found.append(event)
        return found

    def _difference(self, event: NetworkEvent) -> str:
        wanted = self._wanted
        if event.status != wanted.response_status:
            return f"status {event.status} in place of {wanted.response_status}"
        if event.method != wanted.http_method:
            return f"method {event.method}"
        if not any(self._same(one, self._address(event.url)) for one in self._urls):
            return "other parameters of the address"
        for name, value in (wanted.headers or {}).items():
            if not self._same_header(name, value, event.headers.get(name.lower())):
                return f"another header {name}"
        if wanted.post_data and not self._same_data(wanted.post_data, event.post_data):
            return "other data"
        if wanted.response_content and not _same_content(wanted.response_content, event.content):
            return "another content of the answer"
        for name, value in (wanted.response_cookies or {}).items():
            if name not in event.cookies or not equal_values("string", value, event.cookies[name]):
                return f"another cookie {name}"
        return ""

    # Addresses.

    def _wanted_addresses(self, wanted: Any) -> list[Address]:
        """Returns the alternatives of a wanted address."""
        ones = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
        return [self._address(str(one), is_wanted=True) for one in ones]

    def _address(self, url: str, *, is_wanted: bool = False) -> Address:
        given = self._wanted.query_params if is_wanted else None
        if is_wanted and is_pattern(url):
            return Address(url.rstrip("/"), self._read_query(given or {}), True)
        try:
            parts = urlsplit_of(self._template(self._normal(self._render(url.rstrip("/")))))
        except ValueError as exc:
            raise Uncovered(f"the address {url[:80]} is invalid") from exc
        path, queries = unquote(parts.path), [parts.query] if parts.query else []
        if self._config.decode_base64_query and given is None:
            path, decoded = _decode_path(path)
            queries = [*decoded, *queries]
        query = given if given is not None else _read_pairs("&".join(queries))
        base = urlunsplit((parts.scheme, parts.netloc, path, "", parts.fragment))
        return Address(base, self._read_query(query), False)

    @staticmethod
    def _normal(url: str) -> str:
        parts = urlsplit_of(url)
        port = {"http": 80, "https": 443}.get(parts.scheme.lower())
        host = parts.netloc.lower()
        host = host.removesuffix(f":{port}") if port else host
        return urlunsplit((parts.scheme.lower(), host, _without_dots(parts.path), parts.query, parts.fragment))

    def _render(self, url: str) -> str:
        for template, addresses in self._bases.items():
            if url.startswith(template) and addresses:
                return addresses[0].rstrip("/") + url.removeprefix(template)
        if url.startswith("__"):
            raise Uncovered(f"the address of the site {url.split('/')[0][:40]} is not known")
        return url

    def _template(self, text: str) -> str:
        """Returns a text with the template of its site in place of the site's address, the longest of which counts."""
        known = [(one, template) for template, addresses in self._bases.items() for one in addresses]
        for address, template in sorted(known, key=lambda one: -len(one[0])):
            if address.rstrip("/") in text:
                return text.replace(address.rstrip("/"), template)
        return text

    def _read_query(self, given: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
        config = self._config
        found: dict[str, Sequence[Any]] = {}
        for name, values in given.items():
            if name in config.ignored_query_params or _any_matches(config.ignored_query_params_patterns, name, re.I):
                continue
            ones = [values] if isinstance(values, str) else values
            found[name] = sorted(str(one).lower().strip() for one in ones if one is not None)
        return found

    def _same_base(self, wanted: Address, given: Address) -> bool:
        if wanted.is_pattern:
            pattern = wanted.base[1:-1] if wanted.base.endswith("$") else wanted.base[1:]
            return matches(f"(?-i:{self._render(pattern)}$)", self._render(given.base), whole=False)
        return wanted.base.lower().rstrip("/") == given.base.lower().rstrip("/")

    def _same(self, wanted: Address, given: Address) -> bool:
        if not self._same_base(wanted, given):
            return False
        schemas = (self._config.query_params_schema or {}).get("properties", {})
        for name in sorted({*wanted.query, *given.query}):
            one, other = ((address.query.get(name) or [""])[0] for address in (wanted, given))
            if is_pattern(one):
                if not matches(one, other, whole=False):
                    return False
            elif name in schemas and one and other:
                items = schemas[name].get("items", schemas[name])
                if not equal_values(kind_of(items), one, other):
                    return False
            elif one != other:
                return False
        return True

    def _same_header(self, name: str, wanted: Any, given: str | None) -> bool:
        if given is None:
            return False
        if name in ("referer", "redirect_url") and wanted:
            # the wanted parameters of the event's address are not those of the page that it came from
            bare = msgspec.structs.replace(
                self._config, expected=msgspec.structs.replace(self._wanted, query_params=None)
            )
            other = _Judge(bare, self._bases)
            return any(other._same(one, other._address(given)) for one in other._wanted_addresses(wanted))
        return equal_values("string", self._with_templates(wanted), self._template(given))

    # Data.

    def _same_data(self, wanted: Mapping[str, Any], given: Mapping[str, Any] | None) -> bool:
        if not given:
            return False
        skip = self._config.ignored_post_data_params_patterns
        keys = [name.strip() for name in wanted if not _any_matches(skip, name, 0)]
        rest = {name: value for name, value in given.items() if not _any_matches(skip, name, 0)}
        schemas = (self._config.post_data_schema or {}).get("properties", {})
        return all(self._same_value(wanted.get(name), find_value(rest, name), schemas.get(name)) for name in keys)

    def _same_value(self, wanted: Any, given: Any, schema: Mapping[str, Any] | None) -> bool:
        if wanted is None or given is None:
            return wanted is given
        if schema is not None and schema.get("type") == "array":
            kind = kind_of(schema.get("items", {}))
            if isinstance(given, str):
                given = _loads(given)
            if not isinstance(given, list | tuple):
                return False
            items = [self._with_templates(one) for one in given]
            return equal_lists(list(wanted), items, lambda one, other: equal_values(kind, one, other))
        if schema is not None and schema.get("type") == "object":
            raise Uncovered("data with objects inside is not covered")
        kind = "string" if schema is None else kind_of(schema)
        if kind == "markdown":  # upstream leaves the addresses in it as they are
            return equal_values(kind, wanted, given)
        return equal_values(kind, self._with_templates(wanted), self._with_templates(given))

    def _with_templates(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self._with_templates(one) for one in value]
        return self._template(value) if isinstance(value, str) and "http" in value else value


def _any_matches(patterns: Iterable[str], name: str, flags: int) -> bool:
    for pattern in patterns:
        try:
            if len(name) < 1_000 and re.search(pattern, name, flags):
                return True
        except re.error:
            continue
    return False


def _read_pairs(query: str) -> dict[str, list[str]]:
    try:
        pairs = parse_qs(query, keep_blank_values=True, max_num_fields=10_000)
    except ValueError as exc:
        raise Uncovered("an address has too many parameters") from exc
    return {unquote(name): [unquote(one) for one in values] for name, values in pairs.items()}


def _without_dots(path: str) -> str:
    kept: list[str] = []
    for part in path.split("/"):
        if part == ".." and len(kept) > 1:
            kept.pop()
        elif part not in (".", ".."):
            kept.append(part)
    return re.sub("/{2,}", "/", "/".join(kept))


def _decode_path(path: str) -> tuple[str, list[str]]:
    """Returns a path without its segments that are parameters in base64, and those."""
    kept, found = [], []
    for part in path.split("/"):
        text = ""
        if re.fullmatch(r"[A-Za-z0-9_-]{4,8000}={0,2}", part):
            try:
                text = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()
            except (binascii.Error, UnicodeDecodeError):
                text = ""
        if "=" in text:
            found.append(unquote(text).strip().lstrip("?&"))
        elif part:
            kept.append(part)
    ends = "/" if path.endswith("/") and kept else ""
    return ("/" if path.startswith("/") else "") + "/".join(kept) + ends, found


def find_value(data: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a field, of a path from `$`, or of the field whose name a pattern (`$.^...$`) matches; None
    without one. Raises `Uncovered`."""
    pattern = name.removeprefix("$.")
    if is_pattern(pattern):
        found = [value for key, value in data.items() if matches(f"(?-i:{pattern})", key, whole=False)]
        return found[0] if len(found) == 1 else found or None
    if not name.startswith("$"):
        return data.get(name)
    found = _at_path(data, name)
    if not found:
        opened = {key: _loads(value) if isinstance(value, str) else value for key, value in data.items()}
        found = _at_path(opened, name)
    return found[0] if len(found) == 1 and "?(" not in name else found or None


def _at_path(data: Any, path: str) -> list[Any]:
    values, at = [data], 1
    while at < len(path):
        part = _PATH.match(path, at)
        if part is None:
            raise Uncovered(f"the path {path[:80]} is not covered")
        at = part.end()
        values = [found for value in values for found in _one_part(value, part)]
    return values


def _one_part(value: Any, part: re.Match[str]) -> list[Any]:
    name = part["name"] or part["quoted"]
    if name is not None:
        return [value[name]] if isinstance(value, Mapping) and name in value else []
    if not isinstance(value, list):
        return []
    if part["index"] is not None:
        return value[int(part["index"]) :][:1]
    wanted = int(part["value"]) if part["value"].isdecimal() else part["value"][1:-1]
    return [one for one in value if isinstance(one, Mapping) and one.get(part["field"]) == wanted]


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _same_content(wanted: Mapping[str, Any], given: Mapping[str, Any] | None) -> bool:
    if not given:
        return False
    return all(_same_json(value, find_value(given, name)) for name, value in wanted.items())


def _same_json(wanted: Any, given: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(given, Mapping) and all(
            name in given and _same_json(value, given[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(given, list) and equal_lists(wanted, given, _same_json)
    return isinstance(wanted, bool) is isinstance(given, bool) and bool(wanted == given)
