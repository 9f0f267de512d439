"""Specification of a workflow: a TOML file that names no backend, and its static check.

    workflow = "refund"

    [inputs]                       # patterns (RE2) on the task's instruction; the first group is the value
    email = 'address is (\\S+)'

    [[nodes]]
    name = "find"
    tool = "find_customer"
    arguments = { email = "{input.email}" }
    ensure = [{ value = "{result.status}", op = "equals", other = "active" }]
    tries = 2                      # again where the call or a condition after it fails
    otherwise = "decline"          # then go there; default: end

    [[nodes]]
    name = "pay"
    tool = "refund"
    arguments = { customer = "{find.id}", amount = 5 }
    require = [{ value = "{find.balance}", op = "at_least", other = 5 }]
    next = "end"

A reference is `{input.NAME}`, `{NODE.path}` of an earlier node's result, or in `ensure` `{result.path}`; a number in a
path is the place in a list. Conditions are data: nothing is evaluated as code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, time
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from assay.errors import UserError
from assay.limited_file import parse_file, read_toml
from assay.validation_messages import describe_invalid

END: Final = "end"
MOST_FILE: Final = 256 * 1024
MOST_DEPTH: Final = 40
MOST_TEXT: Final = 1 << 20
"""Characters of a text once its references are filled in."""
_REFERENCE: Final = re.compile(r"\{([A-Za-z][\w-]{0,39}(?:\.[\w-]{1,60}){0,8})\}")
_RESERVED: Final = frozenset({END, "input", "result"})
NodeName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,39}\Z")]


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A condition on a value."""

    value: str
    """A reference, such as `{find.status}`."""
    op: Literal["equals", "differs", "at_least", "at_most", "contains", "exists"] = "exists"
    """`exists`: there is such a value, and it is not null."""
    other: Any = None
    """The other side of the comparison; may hold references."""


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One step: a call of a tool of the environment."""

    name: NodeName
    tool: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    arguments: dict[str, Any] = {}
    """Arguments of the call; texts may hold references, and one that is a reference alone keeps its type."""
    require: Annotated[tuple[Condition, ...], msgspec.Meta(max_length=20)] = ()
    """Conditions before the call: without them it is not made."""
    ensure: Annotated[tuple[Condition, ...], msgspec.Meta(max_length=20)] = ()
    """Conditions on its result."""
    tries: Annotated[int, msgspec.Meta(ge=1, le=20)] = 1
    """Times that the call is made at most, until it succeeds and its conditions hold."""
    next: str = ""
    """Node after a success; default: the one below, and after the last the end. `end` ends."""
    otherwise: str = END
    """Node after a failure."""


class Workflow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A workflow."""

    workflow: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,59}\Z")]
    """Its name in the record."""
    nodes: Annotated[tuple[Node, ...], msgspec.Meta(min_length=1, max_length=200)]
    inputs: dict[NodeName, str] = {}
    """Values that are read from the instruction, each by a pattern with one group."""
    most: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 200
    """Most calls."""

    def following(self, node: Node) -> str:
        """Returns the node after a success of this one, or `end`."""
        if node.next:
            return node.next
        place = [one.name for one in self.nodes].index(node.name) + 1
        return self.nodes[place].name if place < len(self.nodes) else END


def references(value: Any) -> Iterator[str]:
    """Yields the references in a template, whatever it is nested in."""
    if isinstance(value, str):
        yield from _REFERENCE.findall(value)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from references(one)


def resolve(template: Any, values: Mapping[str, Any]) -> Any:
    """Returns a template with its references filled in. Raises `LookupError` that names one without a value, or for a
    text that becomes too long."""
    if isinstance(template, str):
        alone = _REFERENCE.fullmatch(template)
        if alone is not None:
            return _value(alone[1], values)
        return _fill_in(template, values)
    if isinstance(template, Mapping):
        return {key: resolve(one, values) for key, one in template.items()}
    if isinstance(template, list | tuple):
        return [resolve(one, values) for one in template]
    return template


def _fill_in(template: str, values: Mapping[str, Any]) -> str:
    parts, at, length = list[str](), 0, len(template)
    for found in _REFERENCE.finditer(template):
        text = str(_value(found[1], values))
        length += len(text)
        if length > MOST_TEXT:
            raise LookupError(f"the text with {found[0]} would have more than {MOST_TEXT:,} characters")
        parts += [template[at : found.start()], text]
        at = found.end()
    return "".join([*parts, template[at:]])


def _value(reference: str, values: Mapping[str, Any]) -> Any:
    found: Any = values
    for key in reference.split("."):
        if isinstance(found, Mapping) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isascii() and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            raise LookupError(f"{{{reference}}} has no value")
    return found


def read_workflow(path: Path) -> Workflow:
    """Reads a workflow file. Raises `UserError` that names the file, and the field or the problems of the check."""
    table = parse_file(path, _read_table, holding="a workflow as TOML", limit=MOST_FILE)
    try:
        found = msgspec.convert(table, Workflow)
    except msgspec.ValidationError as exc:
        invalid = describe_invalid(exc, Workflow, table, "toml")
        raise UserError(f"{path}: {invalid.field or 'the workflow'}: {invalid.message}") from exc
    problems = check_workflow(found)
    if problems:
        raise UserError(f"{path}: {'; '.join(problems)}")
    return found


def _read_table(data: bytes) -> dict[str, Any]:
    """Returns the table of a file. Raises `ValueError`, also for a value that JSON has not."""
    table = read_toml(data)
    _require_json(table, MOST_DEPTH)
    return table


def _require_json(value: Any, depth: int) -> None:
    if depth < 0:
        raise ValueError(f"values are nested deeper than {MOST_DEPTH}")
    reason = ""
    match value:
        case dict() | list():
            for one in value.values() if isinstance(value, dict) else value:
                _require_json(one, depth - 1)
        case date() | time():
            reason = "a date or a time: write it as text"
        case float() if not math.isfinite(value):
            reason = "no number of JSON"
    if reason:
        raise ValueError(f"{value} is {reason}")


def check_workflow(flow: Workflow) -> list[str]:
    """Returns what is wrong with a workflow whatever happens: names, routes, patterns, and references to results that
    some way to the node does not make."""
    names = [node.name for node in flow.nodes]
    problems = [f"two nodes are called {name!r}" for name in sorted({n for n in names if names.count(n) > 1})]
    problems += [f"no node may be called {name!r}" for name in names if name in _RESERVED]
    for node in flow.nodes:
        for field in ("next", "otherwise"):
            target = getattr(node, field)
            if target and target != END and target not in names:
                problems.append(f"node {node.name!r}: {field} is {target!r}, and no node is called that")
    problems += [f"inputs: {name}: {why}" for name, one in flow.inputs.items() if (why := _pattern_problem(one))]
    if problems:
        return problems
    made = _made_before(flow)
    problems += [f"node {name!r} is never reached" for name in names if name not in made]
    for node in flow.nodes:
        problems += [
            f"node {node.name!r}: {one}" for one in _reference_problems(node, flow, made.get(node.name, set()))
        ]
    return problems


def _pattern_problem(pattern: str) -> str:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as exc:
        return f"{pattern[:200]!r} is no pattern of RE2: {exc.args[0].decode('utf-8', 'replace')[:200]}"
    return "" if compiled.groups == 1 else f"{pattern!r} has {compiled.groups} groups, and needs one: the value"


def _made_before(flow: Workflow) -> dict[str, set[str]]:
    """Returns for each reachable node those that succeeded on every way to it."""
    first, edges = flow.nodes[0].name, list[tuple[str, str, bool]]()
    for node in flow.nodes:
        edges += [(node.name, flow.following(node), True), (node.name, node.otherwise, False)]
    made: dict[str, set[str]] = {first: set()}
    is_changing = True
    while is_changing:
        is_changing = False
        for source, target, succeeded in edges:
            if source not in made or target == END:
                continue
            own = made[source] | ({source} if succeeded else set())
            known = made.get(target)
            after = own if known is None else known & own
            if target == first:
                after = set()
            if known != after:
                made[target], is_changing = after, True
    return made


def _reference_problems(node: Node, flow: Workflow, made: set[str]) -> Iterator[str]:
    parts: dict[str, Any] = {"arguments": node.arguments}
    parts |= {"require": [(one.value, one.other) for one in node.require]}
    parts |= {"ensure": [(one.value, one.other) for one in node.ensure]}
    for part, template in parts.items():
        for reference in references(template):
            head, _, rest = reference.partition(".")
            if head == "input":
                if rest not in flow.inputs:
                    yield f"{part}: {{{reference}}}: there is no such input"
            elif head == "result":
                if part != "ensure":
                    yield f"{part}: {{{reference}}}: its own result is known in ensure alone"
            elif head not in made:
                yield f"{part}: {{{reference}}}: node {head!r} need not have succeeded before"
