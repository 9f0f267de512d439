"""Checks of how an agent served somebody: `policy`, the rules it was given, and `communicated`, what it had to say.

Both read records that the agent did not write: the steps that the runner recorded, and the world's own log of calls.
Nothing that the agent wrote is executed: the grade is `no-agent-code`.

Covered: `policy` judges those steps that are in the world's log, if they hold all of its calls, else the log; calls
that were refused break no rule (they obtained nothing). A rule that names `call.role` is judged over the calls of
persons, other users and the system as well; role and time come from the log alone. A number is compared as a number, so
that "10" is not found in "100" or "10:30", and a date in any of the usual spellings, with the right year or none. An
agent that names more than 50 numbers for each number that it must say, or as many dates, is guessing and fails; a
number does not count where more than 6 different ones were said between the same two words, nor does what is said after
the person left. Not covered: what a text means. "It is not 10" holds the number 10.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import msgspec

from assay.analysis.contracts import Contract, check_contract, read_contract
from assay.analysis.contracts.check import ClauseResult
from assay.analysis.contracts.syntax import walk
from assay.analysis.contracts.trace import RecordedTrace
from assay.environments.services.conversation import SEND
from assay.environments.services.declaration import Consent
from assay.environments.services.schema import format_cents
from assay.errors import TaskError, UserError
from assay.records import VerdictStatus
from assay.verify._consent import find_unagreed
from assay.verify._numbers import is_within
from assay.verify._ruling import Ruling
from assay.verify._text_values import ReadMessage, holds_date, normalize_text, read_message
from assay.verify._world_check import make_result, read_parameters, refuse_workspace
from assay.verify.cited_evidence import CitedEvidence
from assay.verify.interface import CheckInput, CheckResult, WorldInput
from assay.verify.logged_calls import LoggedCalls, names_role, recorded_calls

MOST_SHOWN: Final = 50
MOST_VALUES: Final = 50
"""Distinct numbers that an agent may name for each number that it must say, and likewise dates; above, it guesses. In
100 recorded conversations of tau-bench's airline, agents named 26 at most."""


class PolicyParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `policy`."""

    contracts: tuple[str, ...]
    """Contracts in TOML; every rule must hold over the recorded calls."""
    consents: tuple[Consent, ...] = ()
    """Actions before which the person must have said yes, by the world's own account of the conversation."""


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that the attempt brought about: a column of the only row of its table that was added or changed."""

    table: str
    column: str
    unit: str = "number"
    """`cents` for an amount, which people say in whole units."""


class Communicated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fact that the person must be told."""

    value: str = ""
    kind: Literal["number", "text", "date"] = "text"
    tolerance: str = "0"
    """Largest difference of a number, as a decimal."""
    cell: Cell | None = None
    """Where the final state holds the value; then `value` is empty."""


class CommunicatedParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `communicated`."""

    facts: tuple[Communicated, ...]


class RuleResult(NamedTuple):
    """Result of one rule of a contract."""

    name: str
    """Contract and rule."""
    status: VerdictStatus
    broken: tuple[int, ...]
    """Positions of the agent's calls at which it is broken; of a rule that a call of another role breaks, that of the
    agent's next call."""
    is_of_one_call: bool
    """True if one call decides it, whatever came before or comes later."""


class PolicyCheck:
    """Judges the recorded calls by contracts."""

    kind = "policy"

    async def judge(self, given: CheckInput) -> CheckResult:
        """Raises `TaskError`: the calls of a sandbox are judged by a run's contracts."""
        refuse_workspace(given)

    async def judge_world(self, given: WorldInput) -> CheckResult:
        cited = CitedEvidence(given.prefix)
        parameters = read_parameters(given, PolicyParameters)
        return make_result(given, _rule_policy(given, parameters, recorded_calls(given), cited), cited)


class CommunicatedCheck:
    """Judges what the agent told the person."""

    kind = "communicated"

    async def judge(self, given: CheckInput) -> CheckResult:
        """Raises `TaskError`: a workspace has no conversation."""
        refuse_workspace(given)

    async def judge_world(self, given: WorldInput) -> CheckResult:
        cited = CitedEvidence(given.prefix)
        parameters = read_parameters(given, CommunicatedParameters)
        if not parameters.facts:
            raise TaskError(f"check {given.check.name!r} names no fact")
        if not isinstance(given.facts.get("calls"), list | tuple):
            return make_result(given, Ruling("unknown", None, "the world does not report its calls"), cited)
        facts = [_with_value(fact, given.facts) for fact in parameters.facts]
        if None in facts:
            reason = "the final state does not hold what the person must be told"
            return make_result(given, Ruling("fail", 0.0, reason), cited)
        wanted = [fact for fact in facts if fact is not None]
        said = "\n".join(_agent_messages(given.facts))
        message = read_message(said)
        missing = [fact.value for fact in wanted if not is_said(fact, message)]
        guessed = guessed_kinds(wanted, message)
        data = {"missing": missing, "guessed": guessed, "said": said[-4000:], "characters": len(said)}
        cited.add("audit", "communicated", data)
        return make_result(given, _rule_communicated(wanted, missing, guessed), cited)


def _with_value(fact: Communicated, facts: Mapping[str, Any]) -> Communicated | None:
    """Returns a fact with its value, read from the net changes where they hold it; None where they do not.

    Raises:
        TaskError: The fact names a value and a place of it.
    """
    if fact.cell is None:
        return fact
    if fact.value:
        raise TaskError("a fact that the person must be told has a value and a cell: give one of them")
    changes = facts.get("changes")
    rows = [
        one["after"]
        for one in (changes if isinstance(changes, list | tuple) else ())
        if isinstance(one, Mapping) and one.get("table") == fact.cell.table and isinstance(one.get("after"), Mapping)
    ]
    value = rows[0].get(fact.cell.column) if len(rows) == 1 else None
    if value is None:
        return None
    is_amount = fact.cell.unit == "cents" and isinstance(value, int)
    return msgspec.structs.replace(fact, value=format_cents(value) if is_amount else str(value), cell=None)


def _rule_communicated(facts: Sequence[Communicated], missing: Sequence[str], guessed: Mapping[str, int]) -> Ruling:
    if guessed:
        named = " and ".join(f"{count} {kind}s" for kind, count in guessed.items())
        return Ruling("fail", 0.0, f"the person was told {named}: more than {MOST_VALUES} for each fact are guesses")
    if missing:
        score = 1 - len(missing) / len(facts)
        return Ruling("fail", score, f"the person was not told: {', '.join(missing[:5])}")
    return Ruling("pass", 1.0, f"the person was told all {len(facts)} facts")


def is_said(fact: Communicated, message: ReadMessage) -> bool:
    """Returns whether a message holds a fact. Raises `TaskError` for a value that is not of its kind."""
    if fact.kind == "number":
        value, tolerance = _read_number(fact.value), _read_number(fact.tolerance)
        return any(is_within(found, value, tolerance) for found in message.stated)
    if fact.kind == "date":
        try:
            day = date.fromisoformat(fact.value)
        except ValueError as exc:
            raise TaskError(f"the fact {fact.value!r} is not a date (YYYY-MM-DD)") from exc
        return holds_date(day, message.text)
    words = r"\s+".join(re.escape(word) for word in normalize_text(fact.value).split())
    if not words:
        raise TaskError("a fact that the person must be told is empty")
    return re.search(rf"(?<!\w){words}(?!\w)", message.text, re.IGNORECASE) is not None


def is_said_in(fact: Communicated, text: str) -> bool:
    """Returns whether a text holds a fact, as `is_said`."""
    return is_said(fact, read_message(text))


def guessed_kinds(facts: Sequence[Communicated], message: ReadMessage) -> dict[str, int]:
    """Returns the kinds of facts of which a message names too many values (`MOST_VALUES` for each fact), with the
    number of distinct values. A text of digits counts as a number."""
    asked: Counter[str] = Counter("number" if fact.value.isdigit() else fact.kind for fact in facts)
    named = {"number": len(message.numbers), "date": len(message.dates)}
    return {kind: count for kind, count in named.items() if asked[kind] and count > MOST_VALUES * asked[kind]}


def _read_number(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        raise TaskError(f"the fact {text!r} is not a number")
    return value


def _agent_messages(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yields what the agent sent to the person before they left, by the world's own log."""
    answered = _turns(facts)
    for call in facts["calls"]:
        if isinstance(call, Mapping) and call.get("action") == SEND and call.get("code") is None:
            text = call.get("arguments", {}).get("text") if call.get("role") == "agent" else None
            if isinstance(text, str):
                if answered is not None and answered <= 0:
                    return
                answered = None if answered is None else answered - 1
                yield text


def _turns(facts: Mapping[str, Any]) -> int | None:
    """Returns the number of messages that the person answered before they left; None if the world does not say it."""
    found: Any = facts
    for name in ("summaries", "conversation", "turns"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, int) else None


def _rule_policy(
    given: WorldInput, parameters: PolicyParameters, calls: LoggedCalls | None, cited: CitedEvidence
) -> Ruling:
    if calls is None:
        return Ruling("unknown", None, "the calls are not at hand")
    recorded = calls.agents
    results = rule_results(parameters.contracts, calls, f"check {given.check.name!r}")
    unagreed = find_unagreed(parameters.consents, given.facts) if parameters.consents else []
    if unagreed is None:
        return Ruling("unknown", None, "when the person agreed is not at hand")
    broken = [result for result in results if result.status == "fail"]
    for result in broken:
        steps = [recorded.steps[at] for at in result.broken[:MOST_SHOWN]]
        cited.add("audit", "broken_rule", {"rule": result.name, "steps": steps, "count": len(result.broken)})
    for action, without, perhaps in unagreed:
        status: VerdictStatus = "fail" if without else "unknown" if perhaps else "pass"
        results.append(RuleResult(f"consent/{action}", status, (), is_of_one_call=False))
        if without:
            broken.append(results[-1])
            data = {"rule": results[-1].name, "calls": without[:MOST_SHOWN], "count": len(without)}
            cited.add("audit", "broken_rule", data)
    if broken:
        named = ", ".join(result.name for result in broken[:5])
        return Ruling("fail", 1 - len(broken) / len(results), f"broken: {named}")
    undecided = ", ".join([result.name for result in results if result.status == "unknown"][:5])
    if undecided or not results:
        return Ruling("unknown", None, f"not decidable: {undecided}" if undecided else "there are no rules")
    return Ruling("pass", 1.0, f"all {len(results)} rules hold")


def keeps_consents(consents: Sequence[Consent], facts: Mapping[str, Any]) -> bool:
    """Returns whether each call that needs the person's consent was made after a yes for it."""
    found = find_unagreed(consents, facts)
    return found is not None and not any(one.calls or one.undecided for one in found)


def rule_results(contracts: Sequence[str], calls: RecordedTrace | LoggedCalls, where: str) -> list[RuleResult]:
    """Returns the result of each rule of some contracts over all calls of an agent that has stopped.

    A rule that names `call.role` is judged over the calls of every role; where the log of them is not at hand, it is
    undecidable. Every other rule is judged over the agent's calls.

    Raises:
        TaskError: A contract is invalid; the message begins with its number and `where`.
    """
    logged = calls if isinstance(calls, LoggedCalls) else LoggedCalls(calls, None, ())
    agents = _ended(logged.agents)
    everybody = None if logged.everybody is None else _ended(logged.everybody)
    results = []
    for number, text in enumerate(contracts):
        contract = _read(text, f"contract {number} of {where}")
        asks = [names_role(clause.formula) for clause in contract.rules]
        over_all = check_contract(contract, everybody) if everybody is not None and any(asks) else ()
        for at, found in enumerate(check_contract(contract, agents)):
            of_all = bool(over_all) and asks[at]
            judged = over_all[at] if of_all else found
            positions = (everybody if of_all and everybody is not None else agents).trace.positions
            if judged.clause.table.kind == "precondition":  # judged before the call, so it cannot ask how it ended
                judged = _without_refused_calls(judged, positions)
            name = f"{contract.name}/{judged.clause.table.name}"
            at_calls = logged.agents_calls(judged.broken) if of_all else judged.broken
            results.append(RuleResult(name, judged.status, at_calls, judged.clause.is_of_one_call))
    return results


def _ended(recorded: RecordedTrace) -> RecordedTrace:
    return recorded._replace(trace=recorded.trace._replace(ended=True))


def _without_refused_calls(result: ClauseResult, positions: Sequence[Mapping[str, Any]]) -> ClauseResult:
    """Returns the result of a rule over the calls that the world did not refuse, whether broken or undecidable."""
    broken = tuple(at for at in result.broken if not _was_refused(positions[at]))
    unknown = tuple(at for at in result.unknown if not _was_refused(positions[at]))
    if (broken, unknown) == (result.broken, result.unknown):
        return result
    status: VerdictStatus = "fail" if broken else "unknown" if unknown else "pass"
    return result._replace(status=status, broken=broken, unknown=unknown)


def _was_refused(position: Mapping[str, Any]) -> bool:
    """Returns whether the world refused the call at a position, so that it changed and obtained nothing."""
    result = position.get("result")
    return isinstance(result, Mapping) and result.get("error") is True


def texts_of_one_call_rules(contracts: Sequence[str]) -> frozenset[str]:
    """Returns the texts in rules that one call decides, whatever comes before it: the names of its action among them.

    Raises:
        TaskError: A contract is invalid.
    """
    found: set[str] = set()
    for number, text in enumerate(contracts):
        for clause in _read(text, f"contract {number} of the policy").rules:
            if clause.is_of_one_call:
                found.update(node.value for node in walk(clause.formula) if isinstance(node.value, str))
    return frozenset(found)


@lru_cache(maxsize=64)  # the rules of one policy are judged for each plan that is drawn
def _read(text: str, where: str) -> Contract:
    try:
        return read_contract(text, where)
    except UserError as exc:
        raise TaskError(str(exc)) from exc
