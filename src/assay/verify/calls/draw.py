"""Draws fresh inputs: recorded programs with other data.

Nothing comes from a fixed pool: sizes are log-uniform up to eight times the recorded ones, numbers and texts are drawn
anew or taken from elsewhere in the program. The same programs and seed give the same inputs. An input may be one that
the package rejects, or as recorded; whether it is fair to compare is decided by the reference's answers.
"""

from __future__ import annotations

import copy
import math
import random
from typing import Any

import msgspec

from .plain_draw import draw_plain
from .programs import CallProgram, handles

GROWTH = 8
FAR = 500
"""Growth of few integers: not of sizes, which cost time."""
SPACES = "\t\n\r\v\f\u00a0\u2003"
MAX_SIZE = 4000
"""Nodes of a program's trees; one that grew beyond is drawn again."""
AS_RECORDED = 0.05
CONTAINERS = ("l", "t", "S", "F", "d")


def draw_inputs(programs: tuple[CallProgram, ...], count: int, seed: bytes) -> list[CallProgram]:
    """Returns `count` inputs, drawn in turns from the programs."""
    rng = random.Random(seed)
    order = list(programs)
    rng.shuffle(order)
    return [_drawn(order[n % len(order)], rng) for n in range(count)] if order else []


def _drawn(program: CallProgram, rng: random.Random) -> CallProgram:
    if rng.random() < AS_RECORDED:
        return program
    for _ in range(4):
        made = _Draw(program, rng).program()
        if _size(list(made.operations)) <= MAX_SIZE:
            return made
    return program


def _size(tree: Any) -> int:
    return 1 + sum(_size(part) for part in tree) if isinstance(tree, list) else 1


def _log_uniform(rng: random.Random, high: float) -> int:
    """Returns an integer from 0 to `high`; small ones are likelier."""
    return int(math.exp(rng.random() * math.log(high + 1.999))) - 1


class _Draw:
    """A program and the scalars that occur in it."""

    def __init__(self, program: CallProgram, rng: random.Random) -> None:
        self._rng = rng
        self._source = program
        self._operations: list[Any] = copy.deepcopy(list(program.operations))
        self._integers: list[int] = []
        self._texts: list[str] = []
        self._floats: list[float] = []
        self._longest = 1
        for operation in self._operations:
            for holder, position in _slots(operation):
                self._note(holder[position])

    def _note(self, tree: Any) -> None:
        if type(tree) is int:
            self._integers.append(tree)
        elif isinstance(tree, str):
            self._texts.append(tree)
        elif isinstance(tree, list) and tree[0] == "f":
            self._floats.append(float.fromhex(tree[1]))
        elif isinstance(tree, list) and tree[0] in CONTAINERS:
            self._longest = max(self._longest, len(tree) - 1)
            for part in tree[1:]:
                self._note(part)

    def program(self) -> CallProgram:
        """Returns the program with some of its data, and sometimes of its steps, changed."""
        slots = [slot for operation in self._operations for slot in _slots(operation)]
        places = [place for holder, position in slots for place in _places(holder, position)]
        edits = 1 + _log_uniform(self._rng, min(12, 2 * len(places))) if places else 0
        if slots and self._rng.random() < 0.5:  # all of one argument: else long lists hide short ones
            holder, position = self._rng.choice(slots)
            holder[position] = self._changed(holder[position])
        for _ in range(edits):
            holder, position = self._rng.choice(places)
            if position < len(holder):
                holder[position] = self._changed(holder[position])
        if self._rng.random() < 0.35:
            self._change_steps()
        return msgspec.structs.replace(self._source, operations=tuple(self._operations))

    def _change_steps(self) -> None:
        """Repeats steps that only change an object, with other data, or leaves one out."""
        used = {n for operation in self._operations for n in handles(operation[2:])}
        first = self._source.observed
        steps = [op for op in self._operations if op[0] < first and op[0] not in used and op[1] in ("method", "set")]
        if not steps:
            return
        if self._rng.random() < 0.3:
            self._operations.remove(self._rng.choice(steps))
            return
        for _ in range(1 + _log_uniform(self._rng, GROWTH * len(steps))):
            step = copy.deepcopy(self._rng.choice(steps))
            position = next(i for i, op in enumerate(self._operations) if op[0] == step[0])
            for holder, place in list(_slots(step)):
                holder[place] = self._changed(holder[place])
            self._operations.insert(position + 1, step)

    def _changed(self, tree: Any) -> Any:
        if isinstance(tree, bool):
            return not tree if self._rng.random() < 0.7 else tree
        if type(tree) is int:
            return self._integer(tree)
        if isinstance(tree, str):
            return self._text(tree)
        if not isinstance(tree, list):
            return tree
        if tree[0] == "f":
            return ["f", self._real(float.fromhex(tree[1])).hex()]
        if tree[0] == "i":
            return ["i", hex(int(tree[1], 16) + self._rng.randint(-9, 9) * 10 ** self._rng.randrange(20))]
        if tree[0] == "y":
            return ["y", bytes(self._rng.randrange(256) for _ in range(self._length(len(tree[1]) // 2))).hex()]
        if tree[0] == "r":
            return ["r", *[self._integer(n) if type(n) is int and n > 1 else n for n in tree[1:]]]
        if tree[0] == "v":
            return ["v", *draw_plain(self._rng, tree[1], tree[2])]
        return self._container(tree) if tree[0] in CONTAINERS else tree

    def _length(self, recorded: int) -> int:
        return _log_uniform(self._rng, GROWTH * max(recorded, 1))

    def _integer(self, recorded: int) -> int:
        way = self._rng.random()
        if way < 0.35 and self._integers:
            return self._rng.choice(self._integers)
        if way < 0.6:
            return recorded + self._rng.choice((-1, 1))
        growth = FAR if way > 0.96 else GROWTH
        drawn = _log_uniform(self._rng, growth * max(abs(recorded), 2))
        return -drawn if self._rng.random() < (0.5 if recorded < 0 else 0.07) else drawn

    def _real(self, recorded: float) -> float:
        way = self._rng.random()
        if way < 0.2 and self._floats:
            return self._rng.choice(self._floats)
        if way < 0.35 or not math.isfinite(recorded):
            return float(self._integer(int(recorded) if math.isfinite(recorded) and abs(recorded) < 2**53 else 1))
        scaled = (recorded or 1.0) * math.exp(self._rng.gauss(0, 1))
        return -scaled if self._rng.random() < 0.1 else scaled

    def _text(self, recorded: str) -> str:
        way = self._rng.random()
        if way < 0.4 and self._texts:
            return self._rng.choice(self._texts)
        alphabet = "".join(self._texts) or "ab"
        if way < 0.7 and recorded:
            at = self._rng.randrange(len(recorded))
            middle = self._rng.choice(("", self._character(alphabet), recorded[at] * 2))
            return recorded[:at] + middle + recorded[at + 1 :]
        return "".join(self._character(alphabet) for _ in range(self._length(len(recorded))))

    def _character(self, alphabet: str) -> str:
        way = self._rng.random()
        if way < 0.7:
            return self._rng.choice(alphabet)
        if way < 0.95:
            return chr(self._rng.randrange(32, 127))
        return self._rng.choice(SPACES) if way < 0.97 else chr(self._rng.randrange(160, 0x2FF))

    def _container(self, tree: list[Any]) -> list[Any]:
        width = 2 if tree[0] == "d" else 1
        items = [tree[at : at + width] for at in range(1, len(tree), width)]
        fixed = tree[0] == "t" and len(items) <= 4
        if fixed and self._rng.random() < 0.95:
            return ["t", *[self._changed(item[0]) if self._rng.random() < 0.6 else item[0] for item in items]]
        way = self._rng.random()
        if items and way < 0.3:
            at = self._rng.randrange(len(items))
            items[at] = [self._changed(part) for part in items[at]]
        elif way < 0.4 and tree[0] == "l":
            self._rng.shuffle(items)
        else:
            items = self._resized(items, ordered=tree[0] == "t")
        return [tree[0], *[part for item in self._unique(tree[0], items) for part in item]]

    def _resized(self, items: list[list[Any]], *, ordered: bool) -> list[list[Any]]:
        """Returns more or fewer items; `ordered` ones keep their order, because places of a tuple have meanings."""
        size = min(self._length(len(items)), GROWTH * self._longest)
        if size <= len(items):
            kept = self._rng.sample(range(len(items)), size)
            return [items[at] for at in (sorted(kept) if ordered else kept)]
        grown = list(items)
        while items and len(grown) < size:
            grown.append([self._changed(copy.deepcopy(part)) for part in self._rng.choice(items)])
        return grown or [[self._integer(2)] for _ in range(size)]

    def _unique(self, tag: str, items: list[list[Any]]) -> list[list[Any]]:
        """Returns entries with distinct keys, for sets and dictionaries."""
        if tag not in ("S", "F", "d"):
            return items
        return list({repr(item[0]): item for item in items if _is_hashable(item[0])}.values())


def _is_hashable(tree: Any) -> bool:
    if not isinstance(tree, list):
        return True
    return tree[0] not in ("l", "S", "d") and all(_is_hashable(part) for part in tree[1:])


def _slots(operation: list[Any]) -> list[tuple[list[Any], int]]:
    """Yields the list and position of each argument of an operation that is not an earlier result."""
    kind = operation[1]
    if kind in ("call", "method"):
        found = [(operation[4], n) for n in range(len(operation[4]))] + [(pair, 1) for pair in operation[5]]
    else:
        found = [(operation, n) for n in range(3, len(operation))] if kind in ("item", "set") else []
    return [(holder, n) for holder, n in found if holder[n] is not None and not _is_reference(holder[n])]


def _is_reference(tree: Any) -> bool:
    return isinstance(tree, list) and tree[0] in ("o", "g")


def _places(holder: list[Any], position: int) -> list[tuple[list[Any], int]]:
    """Yields a slot and all slots inside it."""
    tree, found = holder[position], [(holder, position)]
    if isinstance(tree, list) and tree[0] in CONTAINERS:
        for inner in range(1, len(tree)):
            if tree[inner] is not None and not _is_reference(tree[inner]):
                found += _places(tree, inner)
    return found
