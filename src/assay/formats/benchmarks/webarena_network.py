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
from urllib.parse import parse_qs, unquote, urlunsplit

import msgspec

from .webarena_patterns import Uncovered, contains, matches
from .webarena_trace import NetworkEvent, Trace, urlsplit_of
from .webarena_values import equal_lists, equal_values, is_pattern, kind_of

_PATH: Final = re.compile(
    r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d{1,6})\]|\['(?P<quoted>[^']+)'\]"
    r"|\[\?\(@\.(?P<field>\w+)\s*==\s*(?P<value>\d+|'[^']*')\)\]"
)


class NetworkSpec(msgspec.Struct, frozen=True):
    """Conditions on an event."""

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


class Address(NamedTuple):
    """An address, with the template of its site in place of the site's own address."""

    base: str
    query: Mapping[str, Sequence[Any]]
    is_pattern: bool


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
        self._require_known(event)
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

    def _require_known(self, event: NetworkEvent) -> None:
        """Raises `Uncovered` if a value is wanted of which the record holds a part only, or nothing."""
        skip = self._config.ignored_post_data_params_patterns
        named = {name for one in self._urls for name in one.query} & event.unknown_parameters
        for name in map(str.strip, (self._wanted.post_data or {}) if event.unknown_data else ()):
            if not _any_matches(skip, name) and (name in event.unknown_data or name.startswith(("$", "^"))):
                named.add(name)
        if named:
            raise Uncovered(f"values of {', '.join(sorted(named))[:100]} were not kept whole")

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
            if name in config.ignored_query_params:
                continue
            if _any_matches(config.ignored_query_params_patterns, name, ignore_case=True):
                continue
            ones = [values] if isinstance(values, str) else values
            found[name] = sorted(str(one).lower().strip() for one in ones if one is not None)
        return found

    def _same_base(self, wanted: Address, given: Address) -> bool:
        if wanted.is_pattern:
            pattern = wanted.base[1:-1] if wanted.base.endswith("$") else wanted.base[1:]
            return matches(f"{self._render(pattern)}$", self._render(given.base), whole=False, ignore_case=False)
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
        keys = [name.strip() for name in wanted if not _any_matches(skip, name)]
        rest = {name: value for name, value in given.items() if not _any_matches(skip, name)}
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


def _any_matches(patterns: Iterable[str], name: str, *, ignore_case: bool = False) -> bool:
    return len(name) < 1_000 and any(contains(pattern, name, ignore_case=ignore_case) for pattern in patterns)


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
        found = [value for key, value in data.items() if matches(pattern, key, whole=False, ignore_case=False)]
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
