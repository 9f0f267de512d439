"""Disturbances of a call's way: it fails, it is slow or times out, views lag behind, and long results come in pages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from assay.environments.interface import ToolSpec
from assay.environments.services.plans import outcome_key, play
from assay.environments.services.world import ServiceWorld
from assay.environments.wrapping import TROUBLES, Rate

from .interface import Answer, Call, Disturbance, DisturbanceOptions, Inner

_MOST_CURSORS: Final = 100
"""Cursors that are valid at the same time; the oldest expires."""
NEXT_PAGE: Final = "next_page"


class _FailuresOptions(DisturbanceOptions, frozen=True):
    in_row: Annotated[int, Meta(ge=1, le=20)] = 2
    """Maximum number of consecutive failures."""


class Failures(Disturbance):
    """Transient failures: the call is not made, the answer says so, and a retry helps.

    `rate` is the share of calls that fail; `state` counts the failures since the last call that was made.
    """

    kind = "failures"
    Options = _FailuresOptions

    def call(self, call: Call, inner: Inner) -> Answer:
        draw = self.draw(call.number)
        fails = draw.random() < self.options.rate and self.state.get("row", 0) < self.options.in_row
        if not fails:
            self.state["row"] = 0
            return inner(call)
        self.state["row"] = self.state.get("row", 0) + 1
        self.state["failed"] = self.state.get("failed", 0) + 1
        text = f"Error (unavailable): {draw.choice(TROUBLES)}; nothing was done. Try again."
        return Answer(text, "unavailable", self.kind)

    def facts(self) -> dict[str, Any]:
        return {"failed": self.state.get("failed", 0)}


class _SlowOptions(DisturbanceOptions, frozen=True):
    timeouts: Rate = 0.5
    """Share of slow calls that are answered by a time-out."""
    made: Rate = 0.7
    """Share of time-outs in which the call was made all the same."""
    minutes: Annotated[int, Meta(ge=0, le=1440)] = 0
    """Minutes that pass on the world's clock during a slow call, unless time changes what the plan leads to."""
    in_row: Annotated[int, Meta(ge=1, le=20)] = 2
    """Maximum number of consecutive time-outs."""


class Slow(Disturbance):
    """Slow calls: time passes on the world's clock, or a time-out leaves open whether the call was made.

    `rate` is the share of slow calls. `state` holds the time-outs in a row and in all, and the minutes that passed.
    """

    kind = "slow"
    Options = _SlowOptions
    _MOST_MINUTES: Final = 24 * 60
    """Minutes that pass in all."""

    def prepare(self) -> None:
        self._passes = bool(self.world.plan and self.options.minutes and self.options.rate) and self._is_timeless()

    def _is_timeless(self) -> bool:
        """Returns whether the plan has the same outcome at the earliest and at the latest time."""
        later = self.world.fork()
        later.pass_time(self._MOST_MINUTES)
        moved = play(later, self.world.plan)
        gradual = self.world.fork()
        share = self._MOST_MINUTES // len(self.world.plan)
        for call in self.world.plan:
            gradual.act(call.action, call.arguments)
            gradual.pass_time(share)
        keys = {outcome_key(play(self.world, self.world.plan)), outcome_key(moved), outcome_key(gradual)}
        return len(keys) == 1 and outcome_key(later) == outcome_key(self.world)

    def call(self, call: Call, inner: Inner) -> Answer:
        draw = self.draw(call.number)
        if draw.random() >= self.options.rate:
            self.state["row"] = 0
            return inner(call)
        passed = self.state.get("minutes", 0)
        if self._passes and passed + self.options.minutes <= self._MOST_MINUTES:
            self.world.pass_time(self.options.minutes)
            self.state["minutes"] = passed + self.options.minutes
        if draw.random() >= self.options.timeouts or self.state.get("row", 0) >= self.options.in_row:
            self.state["row"] = 0
            return inner(call)
        self.state["row"] = self.state.get("row", 0) + 1
        self.state["timeouts"] = self.state.get("timeouts", 0) + 1
        if draw.random() < self.options.made:
            inner(call)
        text = (
            "Error (unavailable): Timed out after 30 s. Whether the call was made is unknown: look before you "
            "repeat it."
        )
        return Answer(text, "unavailable", self.kind)

    def facts(self) -> dict[str, Any]:
        return {"timeouts": self.state.get("timeouts", 0), "minutes": self.state.get("minutes", 0)}


class _StaleOptions(DisturbanceOptions, frozen=True):
    calls: Annotated[int, Meta(ge=1, le=50)] = 2
    """Number of calls after the write during which views answer from before it."""


class Stale(Disturbance):
    """Views that lag: after a write they answer for some calls from the state before it.

    `rate` is the share of writes that are followed by a lag. `state` holds the calls that are left of it.
    """

    kind = "stale"
    Options = _StaleOptions

    def __init__(self, options: Any, world: ServiceWorld) -> None:
        super().__init__(options, world)
        self._before: ServiceWorld | None = None

    def call(self, call: Call, inner: Inner) -> Answer:
        left = self.state.get("left", 0)
        if self.is_write(call.name):
            return self._write(call, inner, left)
        answer = inner(call)
        if not left or self._before is None or answer.cause:  # what was withheld is no answer from before
            return answer
        self._count_down(left)
        if call.name not in self.world.composition.actions:
            return answer
        self.state["shown"] = self.state.get("shown", 0) + 1
        return self._peek(self._before, call)

    def _write(self, call: Call, inner: Inner, left: int) -> Answer:
        lags = not left and self.draw(call.number).random() < self.options.rate
        before = self.world.fork() if lags else None
        answer = inner(call)
        if left:
            self._count_down(left)
        elif before is not None and answer.code is None:
            self._before, self.state["left"] = before, self.options.calls
        return answer

    def _count_down(self, left: int) -> None:
        self.state["left"] = left - 1

    def _peek(self, before: ServiceWorld, call: Call) -> Answer:
        text, code = before.peek_coded(call.name, call.arguments)
        return Answer(text, code)

    def facts(self) -> dict[str, Any]:
        return {"stale_answers": self.state.get("shown", 0)}

    def rebind(self, world: ServiceWorld) -> None:
        super().rebind(world)
        self._before = None if self._before is None else self._before.fork()

    def dump(self) -> dict[str, Any]:
        before = self._before if self.state.get("left") else None
        kept = None if before is None else base64.b64encode(before.snapshot()).decode()
        return {**self.state, "before": kept}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load({name: value for name, value in state.items() if name != "before"})
        kept, self._before = state.get("before"), None
        if kept is not None:
            try:
                data = base64.b64decode(kept, validate=True)
            except (binascii.Error, TypeError) as exc:
                raise ValueError(f"The state of a lag is not base64: {exc}") from exc
            self._before = self.world.fork()
            self._before.restore(data)


class _PagesOptions(DisturbanceOptions, frozen=True):
    rate: float = 1.0
    """Share of the views that give pages."""
    size: Annotated[int, Meta(ge=1, le=1000)] = 5
    """Items of a page."""


class Pages(Disturbance):
    """Long results in pages: a list in a view's result is cut, and `next_page` gives the rest by a cursor.

    `rate` is the share of views that do so. `state` holds the rests of results by cursor.
    """

    kind = "pages"
    Options = _PagesOptions

    def bind(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        names = {spec.name for spec in specs}
        self.tool = next(name for name in (NEXT_PAGE, *(f"{NEXT_PAGE}_{n}" for n in range(2, 20))) if name not in names)
        cursor = {"type": "string", "description": "The `next_cursor` of an earlier page", "maxLength": 200}
        schema = {
            "type": "object",
            "properties": {"cursor": cursor},
            "required": ["cursor"],
            "additionalProperties": False,
        }
        return (*specs, ToolSpec(self.tool, "Returns the next page of an earlier result.", schema))

    def call(self, call: Call, inner: Inner) -> Answer:
        if call.name == self.tool:
            return self._next(call)
        answer = inner(call)
        is_paged = self.draw_for(call.name).random() < self.options.rate
        action = self.world.composition.actions.get(call.name)
        if answer.code is not None or not is_paged or action is None or not action.reads_only or action.returns_text:
            return answer
        try:
            result = msgspec.json.decode(answer.text)
        except msgspec.DecodeError:
            return answer
        field = _longest_list(result)
        items = result if field is None else result.get(field) if isinstance(result, dict) else None
        if not isinstance(items, list) or len(items) <= self.options.size:
            return answer
        shown = {"items": items} if field is None else result
        return self._page(shown, "items" if field is None else field, items, f"{call.number}-0")

    def _page(self, shown: Mapping[str, Any], field: str, items: list[Any], name: str) -> Answer:
        size = self.options.size
        page = {**shown, field: items[:size]}
        cursor = ""
        if items[size:]:
            number, _, offset = name.partition("-")
            cursor = f"page-{number}-{int(offset) + size}"
            held = self.state.setdefault("held", {})
            held[cursor] = [field, items[size:]]
            while len(held) > _MOST_CURSORS:
                del held[next(iter(held))]
            page["next_cursor"] = cursor
        self.state["pages"] = self.state.get("pages", 0) + 1
        return Answer(msgspec.json.encode(page).decode(), cursor=cursor)

    def _next(self, call: Call) -> Answer:
        cursor = call.arguments.get("cursor")
        if set(call.arguments) != {"cursor"} or not isinstance(cursor, str):
            return Answer(f"Error (invalid): Wrong arguments for {self.tool}: it takes `cursor`, a text.", "invalid")
        held = self.state.get("held", {}).get(cursor)
        if held is None:
            return Answer(f"Error (not_found): There is no cursor {cursor[:80]!r}, or it has expired.", "not_found")
        field, items = held
        return self._page({}, field, list(items), cursor.removeprefix("page-"))

    def facts(self) -> dict[str, Any]:
        return {"pages": self.state.get("pages", 0)}


def _longest_list(result: Any) -> str | None:
    """Returns the field that holds an object's longest list; None for other results and objects without a list."""
    lists = (
        {name: len(value) for name, value in result.items() if isinstance(value, list)}
        if isinstance(result, dict)
        else {}
    )
    return max(lists, key=lambda name: lists[name]) if lists else None
