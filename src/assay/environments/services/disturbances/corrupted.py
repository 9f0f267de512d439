"""A corrupted artefact: what a view shows is wrong or broken off when it is asked for the first time."""

from __future__ import annotations

import copy
import random
from typing import Any, Final, Literal

import msgspec

from assay.records import canonical_bytes, digest_bytes

from .interface import Answer, Call, Disturbance, DisturbanceOptions, Inner, Path, leaves

How = Literal["falsified", "broken", "both"]
_MOST: Final = 500
"""Results that are corrupted in one attempt."""
_LEAST_CUT: Final = 40
"""Characters of a result that can be broken off."""


class _CorruptedOptions(DisturbanceOptions, frozen=True):
    how: How = "both"
    """`falsified`: one value is another, and nothing says so; `broken`: the result ends in the middle; `both`: one of
    the two is drawn."""


class Corrupted(Disturbance):
    """Corrupted results of views: a value is falsified in silence, or the result breaks off. Asked again, it is right.

    `rate` is the share of the different calls of views whose first result is corrupted. Identifiers stay as they are.
    `state` counts the results and holds the calls that were answered so.
    """

    kind = "corrupted"
    Options = _CorruptedOptions

    def prepare(self) -> None:
        columns = [column for table in self.world.composition.tables for column in table.columns]
        self._identifiers = frozenset(column.name for column in columns if column.identifier)

    def call(self, call: Call, inner: Inner) -> Answer:
        answer = inner(call)
        action = self.world.composition.actions.get(call.name)
        if answer.code is not None or action is None or not action.reads_only:
            return answer
        key = digest_bytes(canonical_bytes([call.name, call.arguments]))
        draw, shown = self.draw_for(key), self.state.setdefault("shown", [])
        if draw.random() >= self.options.rate or key in shown or len(shown) >= _MOST:
            return answer
        how = draw.choice(("falsified", "broken")) if self.options.how == "both" else self.options.how
        text = self._falsified(answer.text, draw) if how == "falsified" else _broken(answer.text, draw)
        if text is None:
            return answer
        shown.append(key)
        self.state[how] = self.state.get(how, 0) + 1
        return answer._replace(text=text)

    def _falsified(self, text: str, draw: random.Random) -> str | None:
        """Returns a result with one other value; None if it holds none that can be another."""
        try:
            result = msgspec.json.decode(text)
            places = [(path, value) for path, value in leaves(result) if self._may_differ(path, value)]
        except (msgspec.DecodeError, RecursionError):
            return None
        draw.shuffle(places)
        for path, value in places:
            # The value of the same field elsewhere in the result is the most believable one.
            others = [other for place, other in places if place[-1] == path[-1] and other != value]
            found = draw.choice(others) if others else _nearby(value, draw)
            if found is not None:
                return msgspec.json.encode(_with(result, path, found)).decode()
        return None

    def _may_differ(self, path: Path, value: Any) -> bool:
        name = next((part for part in reversed(path) if isinstance(part, str)), "")
        return bool(path) and name not in self._identifiers and self.world.composition.generated_kind(value) is None

    def facts(self) -> dict[str, Any]:
        return {"falsified": self.state.get("falsified", 0), "broken": self.state.get("broken", 0)}


def _broken(text: str, draw: random.Random) -> str | None:
    """Returns the beginning of a result; None if it is too short."""
    if len(text) < _LEAST_CUT:
        return None
    return text[: draw.randrange(len(text) // 4, len(text) * 3 // 4)] + " [the connection broke]"


def _nearby(value: Any, draw: random.Random) -> Any:
    """Returns another number or truth value; None for a text, of which another is not known."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + draw.choice((1, 2, 10)) * draw.choice((1, -1))
    return None


def _with(result: Any, path: Path, value: Any) -> Any:
    """Returns a result with another value at a path; what lies beside the path is shared."""
    if not path:
        return value
    changed = place = copy.copy(result)
    for part in path[:-1]:
        place[part] = copy.copy(place[part])
        place = place[part]
    place[path[-1]] = value
    return changed
