"""Forms whose fields take a value in one form of writing each, and say only that another one is not accepted.

The rules are the same in every task of an office, so that their errors repeat; values and fields differ. `answer` is
the agent's model, made of rules: it tries ways of writing by chance, and takes for granted that of a recovery, or of a
remembered act, which it is shown.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from assay.environments.worlds.families import WorldTasks
from assay.environments.worlds.interface import Act, Turn
from assay.environments.worlds.rules import Rules, WorldConfig
from assay.gateway.interface import ModelRequest

WRITTEN: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper": str.upper,
    "dashed": lambda value: value.replace(" ", "-"),
    "underscored": lambda value: value.replace(" ", "_"),
    "joined": lambda value: value.replace(" ", ""),
    "bracketed": lambda value: f"<{value}>",
}
RULES = {"owner": "upper", "title": "dashed", "place": "joined", "label": "bracketed", "unit": "underscored"}
FIELDS, SPARE = 3, 4
_PARTS = (("north", "south", "old", "new"), ("tax", "land", "harbour"))
OFFICES = [f"{one} {two}" for one in _PARTS[0] for two in _PARTS[1]]
_REMEMBERED = re.compile(r"fill \{\"field\": ?\"(\w+)\", ?\"value\": ?\"([^\"]*)\"\}\n\1 is filled")
_VALUE = re.compile(r"(\w+) = '(\w+ \w+)'")
_HINT = re.compile(r"then fill .*\"value\": ?\"([^\"]*)\"\} worked")


class FormsConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the world."""

    office: Annotated[int, Meta(ge=0, le=12)] = 0
    """Office whose rules hold, which is named in the task; 0: one without a name."""


class _Fill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fill a field."""

    field: str
    value: str


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    done: list[str] = []


class Forms(Rules[FormsConfig, _Now]):
    """One form."""

    name: ClassVar[str] = "forms"
    WorldConfig = FormsConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"fill": _Fill}

    def generate(self, draw: random.Random) -> None:
        names = draw.sample(sorted(RULES), FIELDS)
        own = random.Random(f"office/{self.config.office}")
        self._rules = {name: own.choice(sorted(WRITTEN)) for name in RULES} if self.config.office else RULES
        self._values = {name: f"{_word(draw)} {_word(draw)}" for name in names}
        self.limit = self.config.turns or FIELDS + SPARE
        self.now = _Now()

    def brief(self) -> str:
        office = f"At the {OFFICES[self.config.office - 1]} office. " if self.config.office else ""
        return (
            f"{office}Fill the form: " + ", ".join(f"{name} = '{value}'" for name, value in self._values.items()) + "."
        )

    def render(self) -> str:
        return f"Filled: {', '.join(self.now.done) or 'nothing'}."

    def do_fill(self, given: _Fill) -> Turn:
        wanted = self._values.get(given.field)
        if wanted is None or WRITTEN[self._rules[given.field]](wanted) != given.value:
            return Turn(f"field {given.field[:20]}: the value '{given.value[:60]}' is not accepted", error=True)
        self.now.done += [given.field] if given.field not in self.now.done else []
        return Turn(f"{given.field} is filled.", float(self.solved()), self.solved())

    def constants(self) -> Any:
        return [self._values, self._rules]

    def solved(self) -> bool:
        return len(self.now.done) == FIELDS

    def oracle(self) -> Act | None:
        left = [name for name in self._values if name not in self.now.done]
        if self.over or not left:
            return None
        return "fill", {"field": left[0], "value": WRITTEN[self._rules[left[0]]](self._values[left[0]])}

    def progress(self) -> float | None:
        return len(self.now.done) / FIELDS

    def choices(self) -> list[Act]:
        fills = [(name, WRITTEN[way](value)) for name, value in self._values.items() for way in WRITTEN]
        return [] if self.over else [("fill", {"field": name, "value": value}) for name, value in fills]


class FormTasks(WorldTasks):
    """Tasks of this world: `family:experiments/_forms_world.py:FormTasks,n=40`."""

    kind = f"{__file__}:Forms"
    short = "forms"


def _word(draw: random.Random) -> str:
    return "".join(draw.choice("bdfgklmnprstvz") + draw.choice("aeiou") for _ in range(2))


def answer(request: ModelRequest) -> dict[str, Any]:
    """Fills the next field in a way of writing that it did not try there, the one of a shown recovery first."""
    messages = [*request.messages]
    shown, _, task = str(messages[0]["content"]).rpartition("Fill the form")
    values = dict(_VALUE.findall(task))
    remembered = {field: _way_of(value) for field, value in _REMEMBERED.findall(shown)}
    tried: dict[str, list[str]] = {name: [] for name in values}
    at, advised = 0, ""
    for message in messages[1:]:
        content = str(message.get("content") or "")
        if message["role"] == "assistant":
            call = msgspec.json.decode(message["tool_calls"][0]["function"]["arguments"])
            tried[call["field"]].append(call["value"])
            advised = ""
        elif message["role"] == "tool":
            at += "is filled." in content
        elif (hint := _HINT.search(content)) is not None:
            advised = _way_of(hint[1])
    name = [*values][min(at, len(values) - 1)]
    left = [way for way in WRITTEN if WRITTEN[way](values[name]) not in tried[name]]
    chance = random.Random(f"{request.sampling}/{len(messages)}")
    advised = advised or remembered.get(name, "")
    way = advised if advised in left else chance.choice(left or ["plain"])
    arguments = {"field": name, "value": WRITTEN[way](values[name])}
    return {"tool_calls": [{"name": "fill", "arguments": arguments}]}


def _way_of(value: str) -> str:
    signs = {"<": "bracketed", "-": "dashed", "_": "underscored", " ": "plain"}
    found = next((way for sign, way in signs.items() if sign in value), "joined")
    return "upper" if value.isupper() and found in ("plain", "joined") else found
