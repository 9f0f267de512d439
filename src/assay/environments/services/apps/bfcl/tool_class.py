"""A tool class of BFCL as a service: its attributes are rows, and its methods are actions.

A method is a function of the state, which it may change also where it ends in an error, as a method does. Its result
is the text that BFCL's runner makes of a Python value, and is published under `CALLED` for the record of turns.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

import msgspec
from blake3 import blake3

from assay.environments.services.declaration import Service
from assay.environments.services.transaction import Generator, Transaction

from .extension import load_extension

P = ParamSpec("P")

CALLED: Final = "bfcl-called"
"""Topic of results: `text`."""
ADDED: Final = "bfcl-added"
"""Topic of tools that become available: `tools`."""
Number = int | float
_PYTHON_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_PAIRS, _SET, _ELLIPSIS = "$pairs", "$set", "$ellipsis"


class ClassKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a tool class."""

    scenario: dict[str, Any] = {}
    """The part of a task's `initial_config` that is of this class."""
    withheld: tuple[str, ...] = ()
    """Tools that become available in a later turn."""
    data: str = ""
    """Folder with the material of the long context; empty for tasks without it."""
    sha256: str = ""
    """Digest that the material must have."""


class Setting(msgspec.Struct, frozen=True):
    """Circumstances in which a state is made."""

    extension: Mapping[str, Any] | None
    """Values of the long context; None for tasks without it."""
    today: str


class ClassState(msgspec.Struct):
    """Attributes of an instance. Those whose name begins with `_` are not judged."""

    @classmethod
    def load(cls, scenario: Mapping[str, Any], setting: Setting) -> Self:  # noqa: ARG003 - others need it
        """Returns the initial state; a value that the scenario does not have is the class's default."""
        fields = [name for name in cls.__struct_fields__ if not name.startswith("_")]
        return cls(**{name: scenario[name] for name in fields if name in scenario})

    @classmethod
    def restore(cls, attributes: Mapping[str, Any]) -> Self:
        """Returns the state with these attributes."""
        return cls(**attributes)

    def attributes(self) -> dict[str, Any]:
        """Returns the attributes by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__}

    def judged(self) -> Any:
        """Returns what two states must have in common to be equal."""
        return {name: value for name, value in self.attributes().items() if not name.startswith("_")}


class SeededState(ClassState):
    """State of a class that draws numbers: the generator's seed, and how far it has advanced."""

    _seed: int = 0
    _drawn: int = 0
    """Number of 32-bit words that were drawn."""

    def randint(self, low: int, high: int) -> int:
        """Draws an integer as `random.Random.randint` does."""
        source = self._source()
        found = source.randint(low, high)
        self._drawn = source.words
        return found

    def uniform(self, low: float, high: float) -> float:
        """Draws a number as `random.Random.uniform` does."""
        source = self._source()
        found = source.uniform(low, high)
        self._drawn = source.words
        return found

    def _source(self) -> _CountedRandom:
        return _CountedRandom(self._seed, self._drawn)


class _CountedRandom(random.Random):
    """Generator that continues after a number of words, and counts them."""

    def __init__(self, seed: int, words: int) -> None:
        super().__init__(seed)
        if words:
            super().getrandbits(32 * words)
        self.words = words

    def getrandbits(self, k: int, /) -> int:
        self.words += (k + 31) // 32
        return super().getrandbits(k)

    def random(self) -> float:
        self.words += 2
        return super().random()


S = TypeVar("S", bound=ClassState)


class ToolClass(Generic[S]):
    """A tool class.

    Args:
        original: Name of the class in BFCL.
        name: Name of the service.
        summary: One sentence for people and agents.
        state: Attributes of an instance.
    """

    def __init__(self, original: str, name: str, summary: str, state: type[S]) -> None:
        self.original = original
        self.service = Service(name, summary, knobs=ClassKnobs)
        self._state = state
        row = msgspec.defstruct("Attribute", [("name", str), ("value", str)], frozen=True, module=__name__)
        held = msgspec.defstruct("WithheldTool", [("tool", str)], frozen=True, module=__name__)
        self.service.table("attributes")(row)
        self.service.table("withheld_tools", judged=False)(held)
        self._row: type[msgspec.Struct] = row
        self._held: type[msgspec.Struct] = held
        self.service.generator(self._generate)
        self.service.subscribe(ADDED)(self._declare_addition())

    def tool(self, function: Callable[Concatenate[S, P], Any]) -> Callable[Concatenate[S, P], Any]:
        """Declares a method."""

        @wraps(function)
        def run(tx: Transaction, /, *args: P.args, **kwargs: P.kwargs) -> str:
            if tx.get_or_none(self._held, function.__name__) is not None:
                tx.refuse(f"The tool {function.__name__!r} is not available yet.", "unavailable")
            before = self._read(tx)
            state = self._restore(before)
            try:
                text = as_text(function(state, *args, **kwargs))
            except _PYTHON_ERRORS as exc:
                text = f"Error during execution: {exc}"
            self._save(tx, state, before)
            tx.publish(CALLED, text=text)
            return text

        run.__annotations__ = {**function.__annotations__, "return": "str"}
        declared: Callable[..., str] = run
        self.service.action()(declared)
        return function

    def digest(self, tx: Transaction) -> str:
        """Returns a digest of the judged state; states that Python finds equal have equal ones."""
        return equality_digest(self._restore(self._read(tx)).judged())

    def _generate(self, make: Generator, knobs: ClassKnobs) -> None:
        extension = load_extension(knobs.data, knobs.sha256) if knobs.data else None
        try:
            state = self._state.load(knobs.scenario, Setting(extension, make.today))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as exc:
            raise ValueError(f"The scenario does not fit {self.original}: {type(exc).__name__}: {exc}") from exc
        make.insert_all([self._row(name, encode(value)) for name, value in state.attributes().items()])
        if unknown := sorted(set(knobs.withheld) - set(self.service.actions)):
            raise ValueError(f"{self.original} has no tool {unknown[0]!r} that could be withheld")
        make.insert_all([self._held(name) for name in knobs.withheld])

    def _declare_addition(self) -> Callable[[Transaction, list[str]], None]:
        def add_tools(tx: Transaction, tools: list[str]) -> None:
            """Makes tools available."""
            for row in tx.find(self._held):
                if row.tool in tools:  # type: ignore[attr-defined]
                    tx.delete(row)

        return add_tools

    def _read(self, tx: Transaction) -> dict[str, msgspec.Struct]:
        return {row.name: row for row in tx.find(self._row)}  # type: ignore[attr-defined]

    def _restore(self, rows: Mapping[str, msgspec.Struct]) -> S:
        return self._state.restore({name: decode(row.value) for name, row in rows.items()})  # type: ignore[attr-defined]

    def _save(self, tx: Transaction, state: S, before: Mapping[str, msgspec.Struct]) -> None:
        after = {name: encode(value) for name, value in state.attributes().items()}
        for name, text in after.items():
            row = before.get(name)
            if row is None:
                tx.insert(self._row(name, text))
            elif row.value != text:  # type: ignore[attr-defined]
                tx.update(row, value=text)
        for name in before.keys() - after.keys():
            tx.delete(before[name])


def as_text(result: Any) -> str:
    """Returns a result as BFCL's runner shows it: texts as they are, dictionaries as JSON, others as `str`."""
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)
    return str(result)


def encode(value: Any) -> str:
    """Returns a value as JSON that keeps the order of dictionaries, keys that are numbers, sets and ellipses."""
    return json.dumps(_tagged(value), ensure_ascii=False)


def decode(text: str) -> Any:
    """Returns the value that `encode` wrote."""
    return json.loads(text, object_hook=_untagged)


def _tagged(value: Any) -> Any:
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _tagged(part) for key, part in value.items()}
        return {_PAIRS: [[key, _tagged(part)] for key, part in value.items()]}
    if isinstance(value, set):
        return {_SET: sorted(value)}
    if value is ...:  # some lists of the long context hold one
        return {_ELLIPSIS: True}
    return [_tagged(part) for part in value] if isinstance(value, list) else value


def _untagged(value: dict[str, Any]) -> Any:
    if _PAIRS in value:
        return {key: part for key, part in value[_PAIRS]}
    if _SET in value:
        return set(value[_SET])
    return ... if _ELLIPSIS in value else value


def equality_digest(value: Any) -> str:
    """Returns a digest that is equal for values that `==` finds equal: 1 and 1.0, dictionaries in any order."""
    return blake3(json.dumps(_comparable(value)).encode()).hexdigest(16)


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = [[_comparable(key), _comparable(part)] for key, part in value.items()]
        return {"dict": sorted(pairs, key=lambda pair: json.dumps(pair[0]))}
    if isinstance(value, set):
        return {"set": sorted((_comparable(part) for part in value), key=json.dumps)}
    if isinstance(value, list):
        return [_comparable(part) for part in value]
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value
