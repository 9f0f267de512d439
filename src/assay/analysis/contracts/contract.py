"""Contracts, read from TOML.

    contract = "refunds"

    [define]
    verified = 'earlier(call.name == "verify_identity" and result.ok)'

    [[rules]]
    name = "identity-before-refund"
    kind = "precondition"
    when = 'call.name == "refund"'
    require = 'verified'
    enforce = "deny"

Kinds: a `precondition` is judged before the call that `when` names, so it may look at what happened before and at the
call itself, not at its result; an `invariant` holds at every step, without looking ahead; `governance` is any formula;
a `recovery` says what must follow after `when`.

Invariant: a contract that was read can be evaluated on any trace; whatever is wrong in it is said with its key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, NamedTuple, NoReturn

import msgspec
from msgspec import Meta

from assay.analysis.interface import Severity
from assay.errors import UserError
from assay.limited_file import loads_toml
from assay.records import digest_record

from .memory import MemoryTable
from .reader import BadExpression, read_expression
from .syntax import BOUNDED, FUTURE, PAST, STRICT_PAST, Node, walk

Enforce = Literal["deny", "ask", "log"]
Kind = Literal["precondition", "invariant", "governance", "recovery"]
MOST_BYTES: Final = 256 * 1024
MOST_RULES: Final = 500
MOST_NODES: Final = 10_000
"""Maximum number of expression nodes, which are evaluated for every call."""
_OTHER_STEPS: Final = frozenset({*FUTURE, *PAST, *STRICT_PAST, *BOUNDED, "count", "sum", "latest"})
_AHEAD: Final = frozenset({*FUTURE, "within", "throughout"})
_NAME: Final = r"^[a-z0-9]+(-[a-z0-9]+)*\Z"


class RuleTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`[[rules]]`."""

    name: Annotated[str, Meta(pattern=_NAME, max_length=80)]
    """Stable; lower case and hyphens."""
    kind: Kind
    require: str
    """Required formula."""
    when: str | None = None
    """Steps at which it applies; default: every one."""
    at: Literal["every", "start"] = "every"
    """`start` evaluates the formula once, at the first step: `eventually(...)`, `before(...)`."""
    severity: Severity = "major"
    enforce: Enforce = "log"
    """Guard's reaction to a violating call: refuse, ask, or record."""
    unknown: Enforce = "log"
    """Guard's reaction if a missing field makes the rule undecidable although nothing later could decide it."""
    message: str = ""
    """Message to the agent for a refused call."""


class AgentTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`[[agents]]`: permitted calls of one of several agents. The first entry that matches an agent's name applies."""

    name: Annotated[str, Meta(min_length=1)]
    """A name, with `*` for any characters."""
    may_call: tuple[str, ...] = ("*",)
    """Tools, with `*` for any characters."""
    may_not_call: tuple[str, ...] = ()
    """Tools excluded from `may_call`."""


class LabelTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`[[labels]]`: data with restricted recipients."""

    name: Annotated[str, Meta(pattern=_NAME, max_length=80)]
    source: str
    """Steps whose results bear the label."""
    values: str | None = None
    """Pattern of the labelled texts of a result; default: every text and number of at least 6 characters."""
    may_reach: tuple[str, ...] = ()
    """Permitted agents (by name) and tools (as `tool:NAME`), with `*` for any characters; the source agent is
    permitted."""
    severity: Severity = "major"


class ContractTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Contract file."""

    contract: Annotated[str, Meta(min_length=1, max_length=80)]
    """Name of the contract."""
    description: str = ""
    define: dict[str, str] = {}
    """Named expressions; each may use those above it."""
    rules: Annotated[tuple[RuleTable, ...], Meta(max_length=MOST_RULES)] = ()
    agents: tuple[AgentTable, ...] = ()
    labels: tuple[LabelTable, ...] = ()
    memory: MemoryTable | None = None
    """Session risk memory; default none."""


class Clause(NamedTuple):
    """A parsed rule."""

    table: RuleTable
    formula: Node
    """`when implies require`."""
    when: Node | None
    require: Node
    decidable: bool
    """True if the past and the call itself decide it."""

    @property
    def is_of_one_call(self) -> bool:
        """Returns whether one call decides it, whatever came before or comes later."""
        return not any(node.op in _OTHER_STEPS for node in walk(self.formula))


class Label(NamedTuple):
    """A parsed label."""

    table: LabelTable
    source: Node


class Contract(NamedTuple):
    """A parsed contract."""

    table: ContractTable
    rules: tuple[Clause, ...]
    labels: tuple[Label, ...]
    digest: str
    """Content address of its tables."""

    @property
    def name(self) -> str:
        """Returns the contract's name."""
        return self.table.contract


def read_contract(text: str, name: str) -> Contract:
    """Reads a contract from TOML; errors call the text by `name`, a file's name.

    Raises:
        UserError: The contract is invalid; the message names the key.
    """
    if len(text) > MOST_BYTES:
        raise UserError(f"{name}: {len(text)} characters: a contract has at most {MOST_BYTES}")
    try:
        data = loads_toml(text)
    except (RecursionError, ValueError) as exc:
        raise UserError(f"{name} is not valid TOML: {exc}") from exc
    return contract_of(data, name)


def contract_of(data: dict[str, Any], name: str) -> Contract:
    """Builds a contract from its tables, for example those of a task file. Raises `UserError` as `read_contract`."""
    try:
        table = msgspec.convert(data, ContractTable)
    except msgspec.ValidationError as exc:
        what, _, place = str(exc).partition(" - at `$.")
        place = place.rstrip("`") or "the file"
        raise UserError(f"{name}: {place}: {what[:1].lower()}{what[1:]}") from exc
    reading = _Reading(name, table)
    reading.require_unique()
    definitions = reading.definitions()
    rules = tuple(reading.rule(index, rule, definitions) for index, rule in enumerate(table.rules))
    reading.require_bounded(rules)
    labels = tuple(reading.label(index, label, definitions) for index, label in enumerate(table.labels))
    if not (rules or labels or table.agents or table.memory):
        raise UserError(f"{name}: the contract asks for nothing: add [[rules]], [[agents]], [[labels]] or [memory]")
    return Contract(table, rules, labels, digest_record(table))


class _Reading:
    def __init__(self, name: str, table: ContractTable) -> None:
        self._name = name
        self._table = table

    def _fail(self, key: str, problem: str, cause: Exception | None = None) -> NoReturn:
        raise UserError(f"{self._name}: {key}: {problem}") from cause

    def expression(self, key: str, text: str, definitions: dict[str, Node]) -> Node:
        try:
            return read_expression(text, definitions)
        except BadExpression as exc:
            line, column = text.count("\n", 0, exc.at) + 1, exc.at - (text.rfind("\n", 0, exc.at) + 1) + 1
            place = f"line {line}, column {column}" if "\n" in text.strip() else f"column {column}"
            self._fail(key, f"{place}: {exc}", exc)

    def require_unique(self) -> None:
        names = [("rules", [t.name for t in self._table.rules]), ("labels", [t.name for t in self._table.labels])]
        seen: set[str] = {"permission", "memory"}
        for key, given in names:
            for index, name in enumerate(given):
                if name in seen:
                    self._fail(f"{key}[{index}].name", f"{name!r} means something already: give each its own name")
                seen.add(name)

    def definitions(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for name, text in self._table.define.items():
            problem = _bad_name(name)
            if problem:
                self._fail(f"define.{name}", problem)
            found[name] = self.expression(f"define.{name}", text, found)
        return found

    def rule(self, index: int, table: RuleTable, definitions: dict[str, Node]) -> Clause:
        key = f"rules[{index}] ({table.name})"
        require = self.expression(f"{key}.require", table.require, definitions)
        when = None if table.when is None else self.expression(f"{key}.when", table.when, definitions)
        decidable = _decidable(require) and (when is None or _decidable(when))
        formula = require if when is None else Node("implies", (when, require))
        rule = Clause(table, formula, when, require, decidable)
        for field, problem in _problems(rule):
            self._fail(f"{key}.{field}", problem)
        return rule

    def require_bounded(self, rules: tuple[Clause, ...]) -> None:
        size = sum(sum(1 for _ in walk(rule.formula)) for rule in rules)
        if size > MOST_NODES:
            self._fail("rules", f"with their definitions they have {size} parts: a contract has at most {MOST_NODES}")

    def label(self, index: int, table: LabelTable, definitions: dict[str, Node]) -> Label:
        key = f"labels[{index}] ({table.name})"
        if table.values is not None:
            from .pattern import PatternError, compile_pattern

            try:
                compile_pattern(table.values)
            except PatternError as exc:
                self._fail(f"{key}.values", f"the pattern cannot be read: {exc}", exc)
        return Label(table, self.expression(f"{key}.source", table.source, definitions))


def _bad_name(name: str) -> str | None:
    from .fields import ROOTS

    if not name.isidentifier() or not name.isascii():
        return "a definition's name is letters, digits and _"
    if name in ROOTS or name in ("true", "false"):
        return f"{name!r} means something else already: choose another name"
    return None


def _problems(rule: Clause) -> Iterator[tuple[str, str]]:
    """Yields the inconsistencies of a rule, by field."""
    table = rule.table
    ahead = _looks_ahead(rule.require) or (rule.when is not None and _looks_ahead(rule.when))
    if table.kind in ("precondition", "recovery") and rule.when is None:
        yield "when", f"is missing: a {table.kind} says at which steps it asks for something"
    if table.kind == "precondition" and not rule.decidable:
        yield (
            "require",
            "a precondition is judged before the call: it cannot look ahead, nor at the result or state of the call "
            "itself; what came before is earlier(...), previous(...), latest(...)",
        )
    if table.kind == "invariant" and ahead:
        yield "require", "an invariant holds at every step by itself: what must follow is a recovery, or governance"
    if table.kind == "recovery" and not _looks_ahead(rule.require):
        yield "require", "a recovery says what must follow: within(n, ...), eventually(...), until(...)"
    if table.at == "start" and table.when is not None:
        yield "at", "a rule that is evaluated once, at the start, has no `when`: put it into `require`"
    refuses = "deny" in (table.enforce, table.unknown) or "ask" in (table.enforce, table.unknown)
    if refuses and not rule.decidable and table.at == "every":
        yield (
            "enforce",
            "only what is decided before the call can be refused; this looks ahead, or at the call's result or state: "
            'use enforce = "log", or at = "start"',
        )


def _looks_ahead(node: Node) -> bool:
    return any(found.op in _AHEAD for found in walk(node))


def _decidable(node: Node) -> bool:
    if node.op in _AHEAD:
        return False
    if node.op in STRICT_PAST or node.op == "latest":
        return not any(_looks_ahead(part) for part in node.parts)
    if node.op == "path" and node.value[0] in ("result", "state", "final"):
        return False
    return all(_decidable(part) for part in node.parts)
