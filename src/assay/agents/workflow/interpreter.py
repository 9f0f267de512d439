"""Interpretation of a workflow, apart from what executes its calls: plan, ground, execute, validate, route.

`propose` plans and grounds the next call; the caller executes it, or takes a recorded one for it; `take` validates the
result and routes. So one interpreter drives an attempt and measures how far a recorded attempt follows the workflow.
Deterministic: the same results lead the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from assay.agents._calls import instruction_of
from assay.records import Task

from .spec import END, Condition, Node, Workflow, resolve

Phase = Literal["ground", "require", "execute", "ensure"]


class NodeEvent(msgspec.Struct, frozen=True):
    """Result of one try of a node."""

    node: str
    phase: Phase
    """Last phase that was reached; `ensure` of a success."""
    ok: bool
    reason: str = ""

    def describe(self) -> str:
        """Returns the node, the phase and the reason in one line."""
        return f"{self.node} ({self.phase}): {self.reason}"


class ProposedCall(NamedTuple):
    """The next call of a workflow."""

    node: str
    tool: str
    arguments: dict[str, Any]


class Interpreter:
    """One execution of a workflow.

    Args:
        flow: A workflow without problems.
        instruction: The task's text, which the inputs are read from.
    """

    def __init__(self, flow: Workflow, instruction: str) -> None:
        self._flow = flow
        self._nodes = {node.name: node for node in flow.nodes}
        self._values: dict[str, Any] = {"input": _read_inputs(flow.inputs, instruction)}
        self._at = flow.nodes[0].name
        self._tries = self._calls = self._routes = 0
        self.events: list[NodeEvent] = []

    @property
    def is_done(self) -> bool:
        """Returns whether it has come to the end."""
        return self._at == END

    @property
    def failed(self) -> NodeEvent | None:
        """Returns the last failure, if no node succeeded after it."""
        return self.events[-1] if self.events and not self.events[-1].ok else None

    def propose(self) -> ProposedCall | None:
        """Returns the next call; None at the end. A node that cannot be grounded, or whose conditions before it do not
        hold, fails without a call."""
        while not self.is_done:
            node = self._nodes[self._at]
            if self._calls >= self._flow.most or self._routes >= self._flow.most:
                self._fail(node, "ground", f"more than {self._flow.most} calls", END)
                break
            try:
                arguments = resolve(node.arguments, self._values)
                broken = _broken(node.require, self._values)
            except LookupError as exc:
                self._fail(node, "ground", str(exc), node.otherwise)
                continue
            if broken is None:
                return ProposedCall(node.name, node.tool, arguments)
            self._fail(node, "require", broken, node.otherwise)
        return None

    def take(self, result: Any, *, error: bool) -> None:
        """Takes the result of the proposed call."""
        node = self._nodes[self._at]
        self._calls, self._tries = self._calls + 1, self._tries + 1
        phase, reason = self._judge(node, result, error=error)
        again = self._at if self._tries < node.tries else node.otherwise
        if reason is not None:
            self._fail(node, phase, reason, again)
            return
        self.events.append(NodeEvent(node.name, "ensure", ok=True))
        self._values[node.name] = result
        self._go(self._flow.following(node))

    def _judge(self, node: Node, result: Any, *, error: bool) -> tuple[Phase, str | None]:
        if error:
            return "execute", f"the call failed: {str(result)[:200]}"
        try:
            return "ensure", _broken(node.ensure, {**self._values, "result": result})
        except LookupError as exc:
            return "ensure", str(exc)

    def _fail(self, node: Node, phase: Phase, reason: str, target: str) -> None:
        self.events.append(NodeEvent(node.name, phase, ok=False, reason=reason))
        if target != self._at or phase in ("ground", "require"):
            self._go(END if target == self._at else target)

    def _go(self, target: str) -> None:
        self._at, self._tries = target, 0
        self._routes += 1


def _read_inputs(patterns: Mapping[str, str], instruction: str) -> dict[str, str]:
    import re2

    found = {name: re2.search(pattern, instruction) for name, pattern in patterns.items()}
    return {name: match[1] for name, match in found.items() if match is not None and match[1] is not None}


def _broken(conditions: Iterable[Condition], values: Mapping[str, Any]) -> str | None:
    """Returns the first condition that does not hold; None if all do. Raises `LookupError` as `resolve`."""
    for one in conditions:
        value = resolve(one.value, values)
        other = resolve(one.other, values)
        if not _holds(value, one.op, other):
            compared = "" if one.op == "exists" else f" {other!r}"[:200]
            return f"{one.value} is {str(value)[:100]!r}, expected: {one.op}{compared}"
    return None


def _holds(value: Any, op: str, other: Any) -> bool:
    """Returns whether a condition holds; values that cannot be compared fail it."""
    match op:
        case "exists":
            return value is not None
        case "equals":
            return _is_same(value, other)
        case "differs":
            return not _is_same(value, other)
        case "contains":
            return _contains(value, other)
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (value, other))
    texts = isinstance(value, str) and isinstance(other, str)
    if not numbers and not texts:
        return False
    return bool(value >= other if op == "at_least" else value <= other)


def _contains(value: Any, other: Any) -> bool:
    """Returns whether a table has a key, a list an element, or the text of any other value a part."""
    if isinstance(value, dict):
        return isinstance(other, str) and other in value
    if isinstance(value, list):
        return any(_is_same(one, other) for one in value)
    return str(other) in str(value)


def _is_same(one: Any, other: Any) -> bool:
    """Returns whether two JSON values are equal; unlike `==`, tells true from 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


class RecordedResult(NamedTuple):
    """A call of a recorded attempt."""

    step: int
    tool: str
    arguments: dict[str, Any]
    result: Any
    error: bool


class Adherence(msgspec.Struct, frozen=True):
    """How far recorded calls follow a workflow."""

    calls: int
    followed: int
    """Calls that were the workflow's next one, with its arguments."""
    is_finished: bool
    """True if the workflow came to its end."""
    deviated_at: int | None
    """Step of the first other call; None without one."""
    expected: str
    """The workflow's call there, or where the attempt ended too early; empty otherwise."""
    failed: NodeEvent | None
    """The node that failed last, where the workflow ended in a failure: the place of an error at run time."""
    nodes: tuple[tuple[int, str], ...] = ()
    """Step and node of each call that follows it."""

    @property
    def share(self) -> float:
        """Returns the share of calls that follow it; 0 without a call."""
        return self.followed / self.calls if self.calls else 0.0


def follow(flow: Workflow, task: Task, calls: Iterable[RecordedResult]) -> Adherence:
    """Lets a workflow take the results of the calls that are its own; others are deviations, and change nothing."""
    interpreter = Interpreter(flow, instruction_of(task))
    made = followed = 0
    deviated: int | None = None
    expected, nodes = "", list[tuple[int, str]]()
    for call in calls:
        made += 1
        wanted = interpreter.propose()
        if wanted is not None and wanted.tool == call.tool and _is_same(wanted.arguments, call.arguments):
            interpreter.take(call.result, error=call.error)
            followed += 1
            nodes.append((call.step, wanted.node))
        elif deviated is None:
            deviated, expected = call.step, "the end" if wanted is None else _show(wanted)
    left = interpreter.propose()
    if left is not None and deviated is None:
        expected = _show(left)
    failed = interpreter.failed if left is None else None
    return Adherence(made, followed, left is None, deviated, expected, failed, tuple(nodes))


def _show(call: ProposedCall) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.node}: {call.tool}({arguments})"[:200]
