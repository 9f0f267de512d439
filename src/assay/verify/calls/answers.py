"""Reads and describes the answers of a call worker. Everything here treats the worker as hostile.

Covered: bytes, lines, depth, nodes and digits are bounded; only the tags and shapes of `payload/value_codec.py` are
read; nothing is rebuilt as an object and no code is chosen by the data. Invariant: malformed bytes give an
input no answer, which never equals the reference's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from assay.verify.payload.plain_values import read_plain

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
MAX_LINES = 20_000
"""Far more than the number of inputs; each malformed line costs an exception."""
MAX_DEPTH = 64
MAX_NODES = 40_000
MAX_TOTAL_NODES = 2_000_000
"""Limit of the nodes in all answers of one worker; later answers are not read."""
MAX_INTEGER = 1 << 53
_FLOAT = re.compile(r"-?0x[01]\.[0-9a-f]{1,13}p[+-][0-9]{1,4}|-?0x0\.0p\+0|-?inf|nan")
_BIG = re.compile(r"-?0x[0-9a-f]{1,2000}")
_HEX = re.compile(r"(?:[0-9a-f]{2})*")


def read_answers(data: bytes) -> dict[int, Answer]:
    """Returns the answers by input. An input with a malformed answer, or with two, has none."""
    answers: dict[int, Answer] = {}
    refused: set[int] = set()
    left = MAX_TOTAL_NODES
    for line in data[:MAX_REPLY_BYTES].split(b"\n", MAX_LINES)[:MAX_LINES]:
        entry = _parse(line)
        if entry is None:
            continue
        number, answer, nodes = entry
        left -= nodes
        if number in answers or answer is None or left < 0:
            refused.add(number)
        else:
            answers[number] = answer
    return {number: answer for number, answer in answers.items() if number not in refused}


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
    right = right and _are_sets_distinct(answer)
    return number, tuple(answer) if right else None, nodes or MAX_NODES


def _count_nodes(tree: Any) -> int | None:
    """Returns the number of nodes; None if a bound is exceeded or a part is malformed."""
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
    """Returns whether a tree is `[number, "ok", value, arguments...]`, `[number, "!", type, deliberate]` or a skip."""
    if not isinstance(one, list) or len(one) < 2 or type(one[0]) is not int or not isinstance(one[1], str):
        return False
    if one[1] == "ok":
        return len(one) >= 3 and all(_is_value(part) for part in one[2:])
    if one[1] == "!":
        return len(one) == 4 and isinstance(one[2], str) and len(one[2]) <= 300 and isinstance(one[3], bool)
    return one[1] in ("skip", "opaque") and len(one) <= 3 and all(isinstance(part, str) for part in one[2:])


def _all_values(parts: list[Any]) -> bool:
    return all(_is_value(part) for part in parts)


def _are_sets_distinct(answer: list[Any]) -> bool:
    """Returns whether all items of a set and all keys of a dictionary are encoded differently. Linear in the nodes."""
    numbers: dict[Any, int] = {}
    try:
        for outcome in answer:
            for part in outcome[2:]:
                _number_part(part, numbers)
    except ValueError:
        return False
    return True


def _number_part(tree: Any, numbers: dict[Any, int]) -> int:
    """Returns the number that parts with one text share. Raises `ValueError` for a duplicate item."""
    if not isinstance(tree, list):
        return numbers.setdefault((type(tree), tree), len(numbers))
    inner = [_number_part(part, numbers) for part in tree[1:]]
    items = inner[::2] if tree[0] == "d" else inner if tree[0] in ("S", "F") else []
    if len(set(items)) < len(items):
        raise ValueError(tree[0])
    return numbers.setdefault((tree[0], *inner), len(numbers))


def _fits(pattern: re.Pattern[str]) -> Callable[[list[Any]], bool]:
    return lambda rest: len(rest) == 1 and isinstance(rest[0], str) and pattern.fullmatch(rest[0]) is not None


def _is_in_range(text: str) -> bool:
    try:
        float.fromhex(text)
    except OverflowError:
        return False
    return True


def _is_instance_tree(rest: list[Any]) -> bool:
    """Returns whether a class's name, fields by name, and perhaps contents follow."""
    if not 2 <= len(rest) <= 3 or not isinstance(rest[0], str) or not isinstance(rest[1], list):
        return False
    return rest[1][:1] == ["d"] and _are_texts(["", *rest[1][1::2]]) and _all_values(rest[1:])


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
    "f": lambda rest: _fits(_FLOAT)(rest) and _is_in_range(rest[0]),
    "s": _fits(_HEX),
    "y": _fits(_HEX),
    "c": lambda rest: len(rest) == 2 and all(_SHAPES["f"]([part]) for part in rest),
    "l": _all_values,
    "t": _all_values,
    "S": _all_values,
    "F": _all_values,
    "B": _all_values,
    "b": lambda rest: len(rest) == 1 and type(rest[0]) is int and rest[0] > 0,
    "d": lambda rest: len(rest) % 2 == 0 and _all_values(rest),
    "r": lambda rest: len(rest) == 3 and _all_values(rest) and all(is_number(part) for part in rest),
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


def is_number(tree: Any) -> bool:
    """Returns whether a part of an answer is a number."""
    return type(tree) is int or (isinstance(tree, list) and len(tree) == 2 and tree[0] in ("i", "f"))


def read_number(tree: Any) -> int | float:
    """Returns the number of a part that `is_number`."""
    if type(tree) is int:
        return tree
    return int(tree[1], 16) if tree[0] == "i" else float.fromhex(tree[1])


def describe_answer(answer: Answer | None) -> str:
    """Returns an answer as one line, for a reason or a witness."""
    if answer is None:
        return "no answer"
    if isinstance(answer, str):
        return NO_ANSWERS.get(answer, answer)[:300]
    return "; ".join(_describe_outcome(one) for one in answer)[:300]


def _describe_outcome(one: Any) -> str:
    if one[1] == "!":
        return f"raises {one[2] if one[2].isprintable() else repr(one[2])}"
    return describe_value(one[2]) if one[1] == "ok" else str(one[1])


def describe_value(tree: Any) -> str:
    """Returns a tree in a notation close to Python's."""
    if is_number(tree):
        return str(read_number(tree))[:60]
    if not isinstance(tree, list):
        return repr(tree)
    if tree[0] == "d":
        pairs = zip(tree[1::2], tree[2::2], strict=True)
        return "{" + ", ".join(f"{describe_value(k)}: {describe_value(v)}" for k, v in pairs) + "}"
    if tree[0] == "v":
        return f"{tree[1]}({tree[2]})"[:100]
    brackets = {"l": "[]", "t": "()", "S": "{}", "F": "{}", "B": "{}"}.get(tree[0])
    inner = ", ".join(describe_value(part) for part in tree[1:])
    return f"{brackets[0]}{inner}{brackets[1]}" if brackets else f"<{inner}>" if tree[0] == "x" else inner
