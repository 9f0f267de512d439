"""Writes the reward of a task from its specification alone: the numbered requests, and a world at its start.

The writer never gets the walk from which the requests were made, nor the state in which it ended. It reads each request
back into one call, by the wording of the actions and the descriptions of rows, carries the calls out in its own copy of
the world, and demands what changed there. A request with two readings, or with a part that it does not say, is refused;
so a task is kept only if its text alone says what is wanted.

`gate` then tries the reward as a stranger would: doing nothing fails, the walk's end passes, and other ends fail.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from string import Formatter
from typing import Any, Final

from assay.environments.services.declaration import Action
from assay.environments.services.net_changes import RowChange
from assay.environments.services.outcome import ExpectedChange, expected_changes
from assay.environments.services.plans import PlannedCall, identifiers
from assay.environments.services.world import ServiceWorld
from assay.synthesis.services.instruction import Descriptions, Unspeakable, speak_value, wish_of
from assay.verify.state_check import match_outcome

_REQUEST: Final = re.compile(r"^\d+\. (.+)$", re.MULTILINE)
_MOST_READINGS: Final = 2_000
"""Combinations of values that are tried for one request."""


class Unreadable(Exception):
    """A specification that does not say exactly one thing. The message is for the report."""


class RewardWriter:
    """Reads requests in one world, which must not change meanwhile.

    Args:
        world: A world at its start, of the writer's own.
    """

    def __init__(self, world: ServiceWorld) -> None:
        self._world = world
        self._descriptions = Descriptions(world)
        self._rows: dict[str, dict[str, str]] = {}

    def write(self, specification: str) -> tuple[ExpectedChange, ...]:
        """Returns the outcome that the requests demand. Raises `Unreadable`."""
        requests = _REQUEST.findall(specification)
        if not requests:
            raise Unreadable("the text has no requests")
        done = self._world.fork()
        for request in requests:
            call = self.read(request)
            if done.act(call.action, call.arguments).error:
                raise Unreadable(f"the world refuses {call.action}")
        return expected_changes(self._world.composition.tables, done.database.changes(judged_only=True))

    def read(self, request: str) -> PlannedCall:
        """Returns the one call that a request means. Raises `Unreadable`."""
        found: list[PlannedCall] = []
        for action in self._world.composition.actions.values():
            if action.wish and not action.reads_only and "agent" in action.roles:
                found += [call for call in self._readings(action, request) if call not in found]
        if len(found) != 1:
            raise Unreadable(f"a request has {len(found)} readings")
        return found[0]

    def _readings(self, action: Action, request: str) -> Iterator[PlannedCall]:
        names = [name for _, name, _, _ in Formatter().parse(action.wish) if name]
        if set(action.parameters.get("required", ())) - set(names):
            return  # something that it needs is never said
        said = re.fullmatch(_pattern(action.wish), request, re.IGNORECASE)
        if said is None:
            return
        values = [self._values(action, name, said[name]) for name in names]
        for chosen in itertools.islice(itertools.product(*values), _MOST_READINGS):
            call = PlannedCall(action.name, dict(zip(names, chosen, strict=True)))
            try:
                text = wish_of(self._descriptions, call).text
            except Unspeakable:
                continue
            if request in (text, f"{text}.") or request[:1].lower() + request[1:] in (text, f"{text}."):
                yield call

    def _values(self, action: Action, name: str, text: str) -> list[Any]:
        """Returns the values of an argument that a person says like this."""
        kind = action.takes.get(name)
        if kind is not None:
            found = self._described(kind).get(text)
            return [] if found is None else [found]
        schema = action.parameters["properties"][name]
        schema = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
        possible = [*schema.get("enum", ()), False, True] if "enum" in schema else list(_parse(text))
        return [value for value in possible if self._says(action, name, value, text)]

    def _says(self, action: Action, name: str, value: Any, text: str) -> bool:
        try:
            return speak_value(self._descriptions, action, name, value) == text
        except (Unspeakable, ValueError):
            return False

    def _described(self, kind: str) -> dict[str, str]:
        """Returns the identifiers of a kind by the descriptions that one row alone has."""
        if kind not in self._rows:
            self._rows[kind] = {}
            for value in identifiers(self._world, kind):
                try:
                    self._rows[kind][self._descriptions.describe(kind, value)] = value
                except Unspeakable:
                    continue
        return self._rows[kind]


def _pattern(wish: str) -> str:
    parts = []
    for literal, name, _, _ in Formatter().parse(wish):
        parts.append(re.escape(literal))
        if name:
            known = any(f"(?P<{name}>" in part for part in parts)
            parts.append(f"(?P={name})" if known else f"(?P<{name}>.+?)")
    return "".join(parts) + r"\.?"


def _parse(text: str) -> Iterator[Any]:
    """Yields what a text may stand for."""
    yield text
    if len(text) > 1 and text[0] == text[-1] == '"':
        yield text[1:-1]
    if text in ("yes", "no", "on", "off"):
        yield text in ("yes", "on")
    digits = re.sub(r"[^0-9-]", "", text)
    if re.fullmatch(r"-?\d{1,15}", digits):
        yield int(digits)
        yield int(digits) * 100
    day, _, clock = text.partition(" at ")
    try:
        when = datetime.strptime(day, "%d %B %Y").replace(tzinfo=UTC)
    except ValueError:
        return
    yield f"{when:%Y-%m-%d}T{clock}" if clock else f"{when:%Y-%m-%d}"


def gate(
    reward: Sequence[ExpectedChange], golden: Sequence[RowChange], wrong: Iterable[Sequence[RowChange]]
) -> tuple[str, int]:
    """Returns why a reward is not sound, empty if it is, and how many wrong states it was tried on.

    Args:
        reward: The demanded changes.
        golden: Net changes at the end of the walk.
        wrong: Net changes of other states, none of which has the wanted outcome.
    """
    if match_outcome(list(reward), []).passed:
        return "doing nothing passes", 0
    if not match_outcome(list(reward), list(golden)).passed:
        return "the walk's own end fails", 0
    tried = 0
    for changes in wrong:
        tried += 1
        if match_outcome(list(reward), list(changes)).passed:
            return "a wrong state passes", tried
    return "", tried
