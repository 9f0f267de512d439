"""Reads and compares the answers of a call worker. Everything here treats the worker as hostile.

Covered: bytes, lines, depth, nodes and digits are bounded; only the tags and shapes of `payload/value_codec.py` are
read; nothing is rebuilt as an object and no code is chosen by the data. Invariant: bytes that do not fit give an
input no answer, which never equals the reference's.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from assay.verify.payload.plain_values import read_plain

__all__ = ["LATE", "STOPPED", "Answer", "describe_answer", "describe_value", "read_answers", "same_answer"]

Answer = tuple[Any, ...] | str
"""One outcome for each observed operation; or one of `NO_ANSWERS`."""
LATE, STOPPED = "late", "stopped"
NO_ANSWERS = {
    "time": "no end within its processor time",
    LATE: "no end within the time limit",
    "died": "the process died",
    STOPPED: "not asked, after several without an end",
}
"""Outcomes of a worker that gave no answer. A time limit counts seconds of the wall clock: `LATE` and `STOPPED` alone
do not tell a slow worker from a busy host."""
MAX_REPLY_BYTES = 32 * 1024 * 1024
MAX_LINE_BYTES = 512 * 1024
MAX_DEPTH = 64
MAX_NODES = 40_000
MAX_TOTAL_NODES = 2_000_000
"""Nodes of all answers of one worker; what comes later is not read."""
MAX_INTEGER = 1 << 53
MAX_UNORDERED = 60
"""Items of a set whose floats are matched one by one, where their order by rounded value does not match."""
ULPS = 4
_FLOAT = re.compile(r"-?0x[01]\.[0-9a-f]{1,13}p[+-][0-9]{1,4}|-?0x0\.0p\+0|-?inf|nan")
_BIG = re.compile(r"-?0x[0-9a-f]{1,2000}")
_HEX = re.compile(r"(?:[0-9a-f]{2})*")
_UNORDERED = ("S", "F", "x")
_NESTED = ("l", "t", "S", "F", "d", "r", "I", "x")


def read_answers(data: bytes) -> dict[int, Answer]:
    """Returns the answers by input. An input with a malformed answer, or with two, has none."""
    found: dict[int, Answer] = {}
    refused: set[int] = set()
    left = MAX_TOTAL_NODES
    for line in data[:MAX_REPLY_BYTES].splitlines():
        entry = _parse(line)
        if entry is None:
            continue
        number, answer, nodes = entry
        left -= nodes
        if number in found or answer is None or left < 0:
            refused.add(number)
        else:
            found[number] = answer
    return {number: answer for number, answer in found.items() if number not in refused}


def _parse(line: bytes) -> tuple[int, Answer | None, int] | None:
    """Returns the input's number, its answer (None: malformed) and the answer's nodes; None for another line."""
    if len(line) > MAX_LINE_BYTES:
        return None
    try:
        tree = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    if not isinstance(tree, list) or len(tree) != 2 or type(tree[0]) is not int:
        return None
    number, answer = tree
    if isinstance(answer, str) and answer in NO_ANSWERS:
        return number, answer, 1
    nodes = _count_nodes(answer)
    right = isinstance(answer, list) and nodes is not None and all(_is_outcome(one) for one in answer)
    return number, tuple(answer) if right else None, nodes or MAX_NODES


def _count_nodes(tree: Any) -> int | None:
    """Returns the number of nodes; None where a bound is exceeded or something is no part of an answer."""
    todo, nodes = [(tree, 0)], 0
    while todo:
        part, depth = todo.pop()
        nodes += 1
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            return None
        if isinstance(part, list):
            todo += [(inner, depth + 1) for inner in part]
        elif isinstance(part, dict | float) or (type(part) is int and abs(part) > MAX_INTEGER):
            return None
    return nodes


def _is_outcome(one: Any) -> bool:
    """`[number, "ok", value, argument afterwards...]`, `[number, "!", type, deliberate]` or `[number, "skip"]`."""
    if not isinstance(one, list) or len(one) < 2 or type(one[0]) is not int or not isinstance(one[1], str):
        return False
    if one[1] == "ok":
        return len(one) >= 3 and all(_is_value(part) for part in one[2:])
    if one[1] == "!":
        return len(one) == 4 and isinstance(one[2], str) and len(one[2]) <= 300 and isinstance(one[3], bool)
    return one[1] in ("skip", "opaque") and len(one) <= 3


def _all_values(parts: list[Any]) -> bool:
    return all(_is_value(part) for part in parts)


def _are_distinct(parts: list[Any]) -> bool:
    return len({repr(part) for part in parts}) == len(parts)


def _fits(pattern: re.Pattern[str]) -> Callable[[list[Any]], bool]:
    return lambda rest: len(rest) == 1 and isinstance(rest[0], str) and pattern.fullmatch(rest[0]) is not None


def _is_instance_tree(rest: list[Any]) -> bool:
    return len(rest) >= 2 and isinstance(rest[0], str) and type(rest[1]) is int and _all_values(rest[2:])


def _are_texts(rest: list[Any]) -> bool:
    return bool(rest) and all(isinstance(part, str) for part in rest)


def _is_plain(name: Any, text: Any) -> bool:
    try:
        read_plain(name, text)
    except ValueError:
        return False
    return True


_SHAPES: dict[str, Callable[[list[Any]], bool]] = {
    "i": _fits(_BIG),
    "f": _fits(_FLOAT),
    "s": _fits(_HEX),
    "y": _fits(_HEX),
    "c": lambda rest: len(rest) == 2 and all(_SHAPES["f"]([part]) for part in rest),
    "l": _all_values,
    "t": _all_values,
    "S": lambda rest: _all_values(rest) and _are_distinct(rest),
    "F": lambda rest: _all_values(rest) and _are_distinct(rest),
    "d": lambda rest: len(rest) % 2 == 0 and _all_values(rest) and _are_distinct(rest[::2]),
    "r": lambda rest: len(rest) == 3 and all(_is_number(part) for part in rest),
    "g": lambda rest: len(rest) == 2 and _are_texts(rest),
    "v": lambda rest: len(rest) == 2 and _is_plain(*rest),
    "e": lambda rest: len(rest) == 1 and _are_texts(rest),
    "I": lambda rest: len(rest) >= 1 and isinstance(rest[0], bool) and _all_values(rest[1:]),
    "x": _is_instance_tree,
}


def _is_value(tree: Any) -> bool:
    if not isinstance(tree, list):
        return tree is None or isinstance(tree, bool | int | str)
    return bool(tree) and isinstance(tree[0], str) and tree[0] in _SHAPES and _SHAPES[tree[0]](tree[1:])


def same_answer(reference: Answer, other: Answer, *, tolerance: float = 0.0) -> bool:
    """Returns whether two answers agree: sets and dictionaries without order, floats within the tolerance.

    Where the reference has an integer, the other must have exactly that number. An answer with the same types agrees
    with another one in both directions or in none, but for floats at the very edge of the tolerance.

    Args:
        reference: The answer that is right; its magnitude decides what 4 ulp are.
        other: The worker's.
        tolerance: Relative tolerance of floats; 0 for 4 ulp.
    """
    if isinstance(reference, str) or isinstance(other, str):
        return False
    if len(reference) != len(other):
        return False
    return all(_same_outcome(one, two, tolerance) for one, two in zip(reference, other, strict=True))


def _same_outcome(one: Any, two: Any, tolerance: float) -> bool:
    if one[0] != two[0] or one[1] != two[1] or len(one) != len(two):
        return False
    if one[1] == "!":
        return bool(one[2] == two[2])
    if one[1] != "ok":
        return True
    numbers = (number for tree in one[2:] for number in _floats(tree))
    scale = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    slack = max(ULPS * math.ulp(scale), tolerance * scale)
    return _same_parts(one[2:], two[2:], slack)


def _floats(tree: Any) -> Iterator[float]:
    """Yields the floats of a value."""
    if not isinstance(tree, list):
        return
    if tree[0] in ("f", "c"):
        yield from (float.fromhex(part) for part in tree[1:])
    elif tree[0] in _NESTED:
        for part in tree[1:]:
            yield from _floats(part)


def _is_number(tree: Any) -> bool:
    return (type(tree) is int) or (isinstance(tree, list) and bool(tree) and tree[0] in ("i", "f") and _is_value(tree))


def _number(tree: Any) -> int | float:
    if type(tree) is int:
        return tree
    return int(tree[1], 16) if tree[0] == "i" else float.fromhex(tree[1])


def _same(one: Any, two: Any, slack: float) -> bool:
    if _is_number(one) and _is_number(two):
        return _close(_number(one), _number(two), slack)
    if not isinstance(one, list) or not isinstance(two, list):
        return type(one) is type(two) and bool(one == two)
    tag = one[0]
    if tag == "c" and two[0] == "c":
        return all(_close(float.fromhex(a), float.fromhex(b), slack) for a, b in zip(one[1:], two[1:], strict=True))
    if tag in ("S", "F") and two[0] in ("S", "F"):
        return _same_items([[item] for item in one[1:]], [[item] for item in two[1:]], slack)
    if tag != two[0] or len(one) != len(two):
        return False
    if tag == "v":
        return one == two or (one[1] == two[1] and bool(read_plain(*one[1:]) == read_plain(*two[1:])))
    if tag == "d":
        return _same_items(_pairs(one), _pairs(two), slack)
    if tag == "x":
        head = one[1:3] == two[1:3]
        return head and _same_items([[item] for item in one[3:]], [[item] for item in two[3:]], slack)
    return _same_parts(one[1:], two[1:], slack)


def _same_parts(one: Sequence[Any], two: Sequence[Any], slack: float) -> bool:
    return all(_same(a, b, slack) for a, b in zip(one, two, strict=True))


def _pairs(tree: list[Any]) -> list[list[Any]]:
    return [tree[at : at + 2] for at in range(1, len(tree), 2)]


def _close(reference: float, other: float, slack: float) -> bool:
    if isinstance(reference, int):
        return reference == other
    if reference != reference or other != other:
        return reference != reference and other != other
    try:
        return reference == other or abs(reference - other) <= slack
    except OverflowError:  # an integer beyond all floats
        return False


def _same_items(one: list[list[Any]], two: list[list[Any]], slack: float) -> bool:
    """Matches items without order: by rounded value first, else each item with one of its own that fits.

    Args:
        one: Values, or pairs of a key and its value.
        two: The other's.
        slack: The most that floats may differ by.
    """
    if len(one) != len(two):
        return False
    first, second = sorted(one, key=_order), sorted(two, key=_order)
    if all(_same_parts(a, b, slack) for a, b in zip(first, second, strict=True)):
        return True
    if len(one) > MAX_UNORDERED or not any(True for item in one for part in item for _ in _floats(part)):
        return False  # without floats the order by value is the same on both sides
    fitting = [[n for n, other in enumerate(second) if _same_parts(item, other, slack)] for item in first]
    owners: dict[int, int] = {}
    return all(_assign(item, fitting, owners, set()) for item in range(len(first)))


def _assign(item: int, fitting: list[list[int]], owners: dict[int, int], tried: set[int]) -> bool:
    """Finds an augmenting path: gives the item one that fits, whose owner so far may have to take another."""
    for candidate in fitting[item]:
        if candidate not in tried:
            tried.add(candidate)
            if candidate not in owners or _assign(owners[candidate], fitting, owners, tried):
                owners[candidate] = item
                return True
    return False


def _order(parts: list[Any]) -> tuple[list[str], list[str]]:
    """Returns the sorting key of an item: its rounded numbers, and where these are equal its exact ones."""
    return [_sort_key(part, exact=False) for part in parts], [_sort_key(part, exact=True) for part in parts]


def _sort_key(tree: Any, *, exact: bool) -> str:
    if _is_number(tree):
        return _number_key(_number(tree) or 0, exact=exact)
    if isinstance(tree, list):
        if tree[0] == "v" and "NaN" not in tree[2]:
            return f"[v,{tree[1]},{hash(read_plain(*tree[1:]))}]"  # equal values have equal hashes, not equal texts
        if tree[0] == "c":
            numbers = (float.fromhex(part) or 0 for part in tree[1:])
            return f"[c,{','.join(_number_key(number, exact=exact) for number in numbers)}]"
        if tree[0] == "d":
            pairs = (",".join(_sort_key(part, exact=exact) for part in pair) for pair in _pairs(tree))
            return f"[d,{','.join(sorted(pairs))}]"
        parts = [_sort_key(part, exact=exact) for part in tree[1:]]
        if tree[0] in _UNORDERED:
            parts.sort()
        return f"[{'S' if tree[0] == 'F' else tree[0]},{','.join(parts)}]"
    return repr(tree)


def _number_key(number: float, *, exact: bool) -> str:
    """Returns a text that is the same for equal numbers of both types; not exact: also for most that are close."""
    if not exact:
        with contextlib.suppress(OverflowError):  # an integer beyond all floats
            return f"{number:.6e}"
    return hex(int(number)) if isinstance(number, int) or number.is_integer() else repr(number)


def describe_answer(answer: Answer | None) -> str:
    """Returns an answer in a line, for a reason or a witness."""
    if answer is None:
        return "no answer"
    if isinstance(answer, str):
        return NO_ANSWERS.get(answer, answer)[:300]
    return "; ".join(_describe_outcome(one) for one in answer)[:300]


def _describe_outcome(one: Any) -> str:
    if one[1] == "!":
        return f"raises {one[2]}"
    return describe_value(one[2]) if one[1] == "ok" else str(one[1])


def describe_value(tree: Any) -> str:
    """Returns a tree as Python would write it, or nearly so."""
    if _is_number(tree):
        return str(_number(tree))[:60]
    if not isinstance(tree, list):
        return repr(tree)
    if tree[0] == "d":
        return "{" + ", ".join(f"{describe_value(k)}: {describe_value(v)}" for k, v in _pairs(tree)) + "}"
    if tree[0] == "v":
        return f"{tree[1]}({tree[2]})"[:100]
    brackets = {"l": "[]", "t": "()", "S": "{}", "F": "{}"}.get(tree[0])
    inner = ", ".join(describe_value(part) for part in tree[1:])
    return f"{brackets[0]}{inner}{brackets[1]}" if brackets else f"<{inner}>" if tree[0] == "x" else inner
