"""Calls and answers as plain JSON, for programs in other languages and for people.

A request is one line, an object of arguments by name; an answer is one line, `{"result": value}` or
`{"error": "ValueError"}`. Lists and tuples are arrays, iterators arrays of all their items. JSON does not tell a tuple
from a list or 1.0 from 1, so `collapse_call` gives the call as a program sees it: where the reference answers that one
otherwise, the input is not fair. Values without a form: integers beyond 2**53, infinities, sets, bytes, keys that are
no text, instances. A program's output is read here as hostile data, within bounds.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from .answers import MAX_DEPTH, MAX_INTEGER, MAX_LINE_BYTES, MAX_NODES, Answer
from .programs import CalledProgram, CallProgram

NO_FORM = "no JSON form"
"""Answer of the reference if the answer or the call cannot be written as JSON."""
MAX_REQUEST_BYTES = 16 << 10
MAX_ERROR = 300


class NoJsonFormError(ValueError):
    """The value has no JSON form."""


def json_value(tree: Any) -> Any:
    """Returns a tree with arrays in place of tuples and iterators. Raises `NoJsonFormError` if a part has none."""
    if tree is None or isinstance(tree, bool | str):
        return tree
    if type(tree) is int and abs(tree) < MAX_INTEGER:
        return tree
    if isinstance(tree, list):
        if tree[0] == "f" and math.isfinite(float.fromhex(tree[1])):
            return tree
        if tree[0] in ("l", "t"):
            return ["l", *[json_value(part) for part in tree[1:]]]
        if tree[0] == "I" and tree[1] is True:
            return ["l", *[json_value(part) for part in tree[2:]]]
        if tree[0] == "d" and all(isinstance(key, str) for key in tree[1::2]):
            return ["d", *[json_value(part) for part in tree[1:]]]
    raise NoJsonFormError(f"no JSON form: {str(tree)[:80]}")


def plain_value(tree: Any) -> Any:
    """Returns the Python value of a tree with a JSON form. Raises `NoJsonFormError`."""
    tree = json_value(tree)
    if not isinstance(tree, list):
        return tree
    if tree[0] == "f":
        return float.fromhex(tree[1])
    parts = [plain_value(part) for part in tree[1:]]
    return dict(zip(parts[::2], parts[1::2], strict=True)) if tree[0] == "d" else parts


def collapse_call(program: CallProgram) -> CallProgram:
    """Returns a call as a program sees it that reads JSON: tuples are lists, whole floats are integers."""
    number, kind, head, name, args, named = program.operations[0]
    moved = [number, kind, head, name, [_collapse(tree) for tree in args], [[key, _collapse(t)] for key, t in named]]
    return CallProgram(program.test, (moved,), program.observed)


def _collapse(tree: Any) -> Any:
    if not isinstance(tree, list):
        return tree
    if tree[0] == "f":
        number = float.fromhex(tree[1])
        return int(number) if math.isfinite(number) and number == int(number) and abs(number) < MAX_INTEGER else tree
    if tree[0] in ("l", "t", "d"):
        return ["d" if tree[0] == "d" else "l", *[_collapse(part) for part in tree[1:]]]
    return tree


def write_request(program: CallProgram, called: CalledProgram) -> str | None:
    """Returns a call as one line of JSON; None where it has no JSON form or names a parameter twice."""
    args, named = program.operations[0][4:6]
    found: dict[str, Any] = {}
    try:
        found.update({name: plain_value(tree) for name, tree in zip(called.parameters, args, strict=False)})
        if len(args) > len(called.parameters):
            if not called.rest:
                return None
            found[called.rest] = [plain_value(tree) for tree in args[len(called.parameters) :]]
        for name, tree in named:
            if name in found:
                return None
            found[name] = plain_value(tree)
        text = json.dumps(found, allow_nan=False, ensure_ascii=True)
    except (ValueError, RecursionError):
        return None
    return text if len(text) <= MAX_REQUEST_BYTES else None


def json_answer(answer: Answer | None, program: CallProgram) -> Answer | None:
    """Returns the reference's answer to a single call as `read_json_answer` gives a program's; `NO_FORM` if it cannot
    be written as JSON or the call changed its arguments. A missing outcome is returned unchanged."""
    if answer is None or isinstance(answer, str):
        return answer
    if len(answer) != 1 or answer[0][1] not in ("ok", "!"):
        return NO_FORM
    outcome = answer[0]
    if outcome[1] == "!":
        return ((0, "!", outcome[2].rpartition(".")[2], outcome[3]),)
    args, named = program.operations[0][4:6]
    sent = [tree for tree in [*args, *[tree for _, tree in named]] if isinstance(tree, list) and tree[0] in "ltdS"]
    if list(outcome[3:]) != sent:
        return NO_FORM
    try:
        return ((0, "ok", json_value(outcome[2])),)
    except (ValueError, RecursionError):
        return NO_FORM


class NodeBudget:
    """Number of nodes of decoded JSON that may still be read; nodes of refused lines count too."""

    def __init__(self, nodes: int) -> None:
        self.left = nodes


def read_json_answer(text: str | bytes, budget: NodeBudget | None = None) -> Answer | None:
    """Returns the answer that a line of JSON holds; None where it is malformed, too large, or beyond the budget."""
    most = MAX_NODES if budget is None else min(MAX_NODES, budget.left)
    if len(text) > MAX_LINE_BYTES or most <= 0:
        return None
    left = NodeBudget(most)
    answer = _read(text, left)
    if budget is not None:
        budget.left -= most - left.left
    return answer


def _read(text: str | bytes, left: NodeBudget) -> Answer | None:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    if not isinstance(found, dict) or len(found) != 1:
        return None
    if isinstance(found.get("error"), str) and len(found["error"]) <= MAX_ERROR:
        return ((0, "!", found["error"], True),)
    if "result" not in found:
        return None
    try:
        return ((0, "ok", _tree(found["result"], left, MAX_DEPTH)),)
    except NoJsonFormError:
        return None


def _tree(value: Any, left: NodeBudget, depth: int) -> Any:
    """Encodes decoded JSON. Raises `NoJsonFormError` where nodes or depth are exceeded."""
    left.left -= 1
    if left.left < 0 or depth < 0:
        raise NoJsonFormError("too large or too deep")
    if isinstance(value, list):
        return ["l", *[_tree(part, left, depth - 1) for part in value]]
    if isinstance(value, dict):
        return ["d", *[_tree(part, left, depth - 1) for pair in value.items() for part in pair]]
    if isinstance(value, float):
        return ["f", value.hex()]
    if type(value) is int and abs(value) >= MAX_INTEGER:
        return ["i", hex(value)]
    return value


def write_json_answer(answer: Answer) -> str:
    """Returns a reference's answer in its JSON form as one line."""
    outcome = answer[0]
    found = {"error": outcome[2]} if outcome[1] == "!" else {"result": plain_value(outcome[2])}
    return json.dumps(found, allow_nan=False, ensure_ascii=True)
