"""Online contract checks: violations of a proposed call.

Uses the formulas and evaluation of the offline check over the trace so far and the proposed call, whose result is
unknown. So every refused call would also violate the contract offline, whatever its result.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Literal, NamedTuple

from assay.records import AttemptStarted, Step

from .contract import Clause, Contract, Enforce
from .evaluation import AtomCache, Trace, evaluate
from .flow import may_call
from .memory import Memory, observe
from .temporal import FALSE, UNKNOWN
from .trace import Tracer


class Decision(NamedTuple):
    """Decision on a proposed call."""

    contract: str
    rule: str
    call: int
    """Position among the step's tool calls."""
    status: Literal["broken", "unknown"]
    enforce: Enforce
    reason: str


class Monitor:
    """One attempt under contracts, with its first event if known."""

    def __init__(self, contracts: Sequence[Contract], started: AttemptStarted | None = None) -> None:
        self.contracts = tuple(contracts)
        self._tracer = Tracer(started)
        self._past: list[dict[str, Any]] = []
        self._cache = AtomCache()
        self._memory = {contract.name: Memory() for contract in self.contracts}
        self._broken: set[tuple[str, str]] = set()
        """Rules over the whole trace already broken: later calls are not to blame."""

    def ask(self, step: Step, made: int = 0, denied: Container[int] = ()) -> tuple[Decision, ...]:
        """Returns the violations of the step's calls in order; only the session's risk is remembered.

        The step has the results of its first `made` calls; `denied` are positions of the denied ones among them.
        """
        found: list[Decision] = []
        proposed: list[dict[str, Any]] = []
        for number, fields in self._tracer.positions(step, made=made):
            if number in denied:
                continue
            proposed.append(fields)
            if 0 <= number < made:
                continue
            trace = Trace([*self._past, *proposed], ended=False)
            before = len(found)
            for contract in self.contracts:
                found += self._of_rules(contract, trace, number)
                found += self._of_permissions(contract, fields, number)
                found += self._of_memory(contract, fields, number, refused=_refuses(found[before:]))
            if _refuses(found[before:]):
                proposed.pop()  # it will not be made
        return tuple(found)

    def record_step(self, step: Step, denied: Container[int] = ()) -> None:
        """Adds a finished step; `denied` are positions of calls that were not made."""
        self._past += [fields for number, fields in self._tracer.positions(step) if number not in denied]
        self._cache.settled = len(self._past)

    def _of_rules(self, contract: Contract, trace: Trace, number: int) -> list[Decision]:
        found = []
        for clause in contract.rules:
            column = evaluate(clause.formula, trace, self._cache)
            truth = column[0] if clause.table.at == "start" else column[-1]
            key = (contract.name, clause.table.name)
            if clause.table.at == "start" and truth == FALSE:
                if key in self._broken:
                    continue
                if clause.table.enforce == "log":
                    self._broken.add(key)
            decision = _decided(contract, clause, truth, number)
            if decision is not None:
                found.append(decision)
        return found

    def _of_permissions(self, contract: Contract, fields: dict[str, Any], number: int) -> list[Decision]:
        call = fields.get("call")
        problem = may_call(contract, str(fields["who"]), str(call["name"])) if isinstance(call, dict) else None
        if problem is None:
            return []
        return [Decision(contract.name, "permission", number, "broken", "deny", problem)]

    def _of_memory(self, contract: Contract, fields: dict[str, Any], number: int, *, refused: bool) -> list[Decision]:
        table = contract.table.memory
        if table is None:
            return []
        self._memory[contract.name], risk = observe(self._memory[contract.name], fields, table, refused=refused)
        if not risk.refused:
            return []
        led = ", ".join(name for name, value in risk.directions.items() if value) or "what came before"
        reason = f"the session's risk is {risk.average:.2f} of at most {table.deny_at:g} ({led})"
        return [Decision(contract.name, "memory", number, "broken", table.enforce, reason)]


def _refuses(decisions: Sequence[Decision]) -> bool:
    return any(decision.enforce == "deny" for decision in decisions)


def _decided(contract: Contract, clause: Clause, truth: int, number: int) -> Decision | None:
    table = clause.table
    if truth == FALSE:
        reason = table.message or f"it breaks the {table.kind} {table.name!r}: {table.require}"
        return Decision(contract.name, table.name, number, "broken", table.enforce, reason)
    if truth == UNKNOWN and clause.decidable and table.at == "every":
        reason = f"the {table.kind} {table.name!r} cannot be decided: a field that it needs is missing"
        return Decision(contract.name, table.name, number, "unknown", table.unknown, reason)
    return None
