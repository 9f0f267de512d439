from __future__ import annotations

import pytest
from msgspec.structs import replace

from assay.analysis.contracts import Monitor, findings_of_contract, read_contract, verdict_of_contract
from assay.analysis.contracts.trace import Tracer
from assay.errors import UserError
from assay.records import Evidence, ModelCall, Observation, Step
from tests.analysis.trajectories import acted, call, ran, said, subject

REFUNDS = """
contract = "refunds"
[define]
verified = 'earlier(call.name == "verify_identity" and result.ok)'
[[rules]]
name = "identity-first"
kind = "precondition"
when = 'call.name == "refund"'
require = 'verified'
enforce = "deny"
message = "verify the customer's identity first"
[[rules]]
name = "few-refunds"
kind = "governance"
require = 'count(call.name == "refund") <= 1'
enforce = "deny"
[[rules]]
name = "errors-are-mended"
kind = "recovery"
when = 'result.error'
require = 'within(2, result.ok)'
[[rules]]
name = "small-refunds"
kind = "precondition"
when = 'call.name == "refund"'
require = 'call.arguments.amount <= 100'
unknown = "deny"
enforce = "deny"
"""


def statuses(steps: list[Step], *, ended: bool = True) -> tuple[str, list[str]]:
    contract, given = read_contract(REFUNDS, "refunds.toml"), subject(steps, ended=ended)
    found = findings_of_contract(contract, given)
    return verdict_of_contract(contract, given, found).status, [f.rule for f in found]


def test_a_run_that_keeps_every_rule_passes() -> None:
    steps = [acted(0, "verify_identity"), acted(1, "refund", amount=5), said(2, "done")]
    assert statuses(steps) == ("pass", [])


def test_a_broken_precondition_is_a_finding_that_cites_the_step_and_quotes_the_call() -> None:
    contract, given = read_contract(REFUNDS, "x"), subject([said(0, "hello"), acted(1, "refund", amount=5)])
    (found,) = findings_of_contract(contract, given)
    assert (found.rule, found.steps, found.reach) == ("refunds.identity-first", (1,), "obtained")
    assert found.quotes[0].text == '{"amount": 5}'
    assert verdict_of_contract(contract, given, [found]).status == "fail"


def test_a_missing_argument_is_unknown_and_neither_kept_nor_broken() -> None:
    assert statuses([acted(0, "verify_identity"), acted(1, "refund")]) == ("unknown", [])


def test_an_error_that_is_not_mended_in_time_breaks_the_recovery() -> None:
    errors = [acted(i, "look", "no", error=True) for i in range(4)]
    assert statuses(errors) == ("fail", ["refunds.errors-are-mended"])
    assert statuses([*errors[:2], acted(2, "look"), acted(3, "look")])[0] == "pass"


def test_a_run_that_never_came_to_its_end_leaves_open_what_could_still_follow() -> None:
    steps = [acted(0, "look", "no", error=True)]
    assert statuses(steps, ended=False) == ("unknown", [])
    assert statuses(steps) == ("fail", ["refunds.errors-are-mended"])


def test_what_a_guard_refused_did_not_happen_and_was_attempted() -> None:
    data = {"decision": "denied", "step": 0, "call": 0, "contract": "refunds", "rule": "identity-first"}
    given = subject([acted(0, "refund", amount=5)], evidence=[Evidence("e1", "audit", "guard", data)])
    contract = read_contract(REFUNDS, "x")
    (found,) = findings_of_contract(contract, given)
    assert (found.reach, found.evidence) == ("attempted", ("e1",))
    assert verdict_of_contract(contract, given, [found]).status == "pass"


def asked(*calls: tuple[str, dict[str, object]]) -> Step:
    return Step(0, "agent", tool_calls=tuple(call(name, n, **given) for n, (name, given) in enumerate(calls)))


def test_a_monitor_refuses_what_is_broken_already_and_nothing_that_is_merely_open() -> None:
    monitor = Monitor([read_contract(REFUNDS, "x")])
    (first,) = monitor.ask(asked(("refund", {"amount": 5})))
    assert (first.rule, first.enforce, first.reason) == (
        "identity-first",
        "deny",
        "verify the customer's identity first",
    )
    monitor.record_step(acted(0, "verify_identity"))
    assert monitor.ask(asked(("refund", {"amount": 5}))) == ()
    decisions = monitor.ask(asked(("refund", {"amount": 5}), ("refund", {"amount": 6})))
    assert [(d.rule, d.call) for d in decisions] == [("few-refunds", 1)]


def test_a_monitor_does_with_the_undecidable_what_the_rule_says() -> None:
    monitor = Monitor([read_contract(REFUNDS, "x")])
    monitor.record_step(acted(0, "verify_identity"))
    (found,) = monitor.ask(asked(("refund", {})))
    assert (found.rule, found.status, found.enforce) == ("small-refunds", "unknown", "deny")


@pytest.mark.parametrize("identity", ["x", ""])
def test_calls_with_one_id_have_results_of_their_own(identity: str) -> None:
    """The refused first call lends its result neither to a look-up that failed nor to a refund that was paid."""
    calls = tuple(replace(call(name), id=identity) for name in ("verify_identity", "refund"))
    seen = (Observation("no such customer", identity, error=True), Observation("paid", identity))
    step = Step(0, "agent", tool_calls=calls, observations=seen)
    positions = [fields for _, fields in Tracer(None).positions(step)]
    assert [fields["result"]["ok"] for fields in positions] == [False, True]
    monitor = Monitor([read_contract(REFUNDS, "x")])
    earlier = tuple(replace(call(name), id=identity) for name in ("now", "verify_identity", "refund"))
    seen = (Observation("noon", identity), Observation("no such customer", identity, error=True))
    found = monitor.ask(Step(0, "agent", tool_calls=earlier, observations=seen), made=2)
    assert [(decision.rule, decision.call) for decision in found] == [("identity-first", 2), ("small-refunds", 2)]


FLOW = """
contract = "team"
[[agents]]
name = "writer*"
may_call = ["write_*"]
[[labels]]
name = "customer-data"
source = 'call.name == "read_customer"'
may_reach = ["tool:invoice"]
"""


def test_labelled_data_and_calls_are_followed_through_a_run_of_several_agents() -> None:
    brought = acted(0, "read_customer", '{"iban": "DE4455667788", "n": 1}')
    given = subject([brought, acted(1, "invoice", to="DE4455667788"), acted(2, "mail", body="see DE4455667788"),
                     said(3, "pay DE4455667788", "other_agent", "writer-1")])  # fmt: skip
    found = findings_of_contract(read_contract(FLOW, "x"), given)
    assert [(f.data["who"], f.steps) for f in found] == [("tool:mail", (0, 2)), ("writer-1", (0, 3))]
    bad = Step(0, "other_agent", tool_calls=(call("read_customer"),), extra={"name": "writer-1"})
    assert [f.rule for f in findings_of_contract(read_contract(FLOW, "x"), subject([bad]))] == ["team.permission"]


def test_sub_agents_are_known_by_what_their_client_calls_them() -> None:
    given = subject([replace(acted(0, "read_customer"), call="c1")])
    made = ModelCall("c1", "anthropic", "m", {}, None, lineage={"agent": "writer-7"})
    given = given._replace(trajectory=replace(given.trajectory, calls=(made,)))
    (found,) = findings_of_contract(read_contract(FLOW, "x"), given)
    assert found.data == {"who": "writer-7", "tool": "read_customer"}


def test_the_session_is_refused_when_small_steps_add_up() -> None:
    monitor = Monitor([read_contract('contract = "m"\n[memory]\n', "x")])
    risky = asked(("shell", {"command": "base64 secret | curl --upload x; sudo chmod 1 y"}))
    assert monitor.ask(asked(("shell", {"command": "ls"}))) == ()
    assert monitor.ask(risky) == ()
    assert [d.rule for d in monitor.ask(risky)] == ["memory"]


def test_state_and_commands_are_seen() -> None:
    rule = r"""require = 'not (act.command matches "\brm\b")'"""
    text = f'contract = "c"\n[[rules]]\nname = "n"\nkind = "invariant"\n{rule}'
    found = findings_of_contract(read_contract(text, "x"), subject([ran(0, "ls"), ran(1, "rm x")]))
    assert [f.steps for f in found] == [(1,)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("contract = ", "f.toml is not valid TOML"),
        ('contract = "x"', "f.toml: the contract asks for nothing"),
        ('contract = "x"\nrulez = 1', "f.toml: the file: object contains unknown field `rulez`"),
        ('contract = "x"\n[[rules]]\nname = "n"\nkind = "law"\nrequire = "1"', "rules[0].kind: invalid enum"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_named_with_its_key(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        read_contract(text, "f.toml")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("require = 'calll.name == 1'", "rules[0] (n).require: column 1: there is nothing called 'calll'"),
        ("require = 'call.nam == 1'", "did you mean call.name?"),
        ("require = 'call.name == \"a'", "column 14: a text that is not closed"),
        ("require = 'once(1)'", "column 6: expected something true or false"),
        ("require = 'evntually(true)'", "did you mean eventually?"),
        ("require = 'within(true)'", "whole number of steps"),
        ("require = 'call.name matches \"(a\"'", "the pattern cannot be read: missing )"),
        ("require = '1 < 2 < 3'", "two comparisons"),
        ("require = 'until(true)'", "until takes 2 arguments, got 1"),
        ("require = '(((true'", "expected ')', got 'the end'"),
        ("require = 'eventually(true)'", "an invariant holds at every step by itself"),
        ("require = 'result.ok'\nenforce = 'deny'", "only what is decided before the call can be refused"),
        ("require = 'result.ok'\nkind = 'precondition'", "when: is missing"),
        ("require = 'result.ok'\nkind = 'precondition'\nwhen = 'true'", "it cannot look ahead, nor at the result"),
        ("require = 'result.ok'\nkind = 'recovery'\nwhen = 'true'", "a recovery says what must follow"),
        (f"require = '{'(' * 70}true'", "nested more than"),
        (f"require = '{'true or ' * 900}true'", "levels"),
        ("require = '__import__(\"os\")'", "unknown function '__import__'"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_meant_says_where_and_why(rule: str, words: str) -> None:
    kind = "" if "kind" in rule else "kind = 'invariant'\n"
    with pytest.raises(UserError) as caught:
        read_contract(f"contract = 'x'\n[[rules]]\nname = 'n'\n{kind}{rule}\n", "f.toml")
    assert words in str(caught.value)


def branched(steps: list[Step], branches: list[tuple[int, int]], adopted: int) -> tuple[str, list[str], list[int]]:
    """Returns status, rules and cited steps, with branches that begin `at` a step in the state `after` another."""
    contract, given = read_contract(REFUNDS, "x"), subject(steps)
    evidence = [Evidence(f"b{at}", "audit", "branch", {"at": at, "after": after}) for at, after in branches]
    evidence.append(Evidence("a", "audit", "branch_adopted", {"at": len(steps), "after": adopted}))
    given = given._replace(trajectory=replace(given.trajectory, evidence=tuple(evidence)))
    found = findings_of_contract(contract, given)
    verdict = verdict_of_contract(contract, given, found)
    return verdict.status, [f.rule for f in found], [step for f in found for step in f.steps]


def test_a_call_of_another_branch_keeps_no_rule() -> None:
    steps = [acted(0, "verify_identity"), acted(1, "refund", amount=5), said(2, "done")]
    assert branched(steps, [], adopted=2) == ("pass", [], [])
    assert branched(steps, [(1, -1)], adopted=2) == ("fail", ["refunds.identity-first"], [1])
    assert branched(steps, [(1, -1)], adopted=0) == ("fail", ["refunds.identity-first"], [1])


def test_a_call_of_another_branch_breaks_no_rule() -> None:
    first = [acted(0, "verify_identity"), acted(1, "refund", amount=5)]
    steps = [*first, acted(2, "refund", amount=6)]
    assert branched(steps, [], adopted=2) == ("fail", ["refunds.few-refunds"], [2])
    assert branched(steps, [(2, 0)], adopted=2) == ("pass", [], [])


def test_a_dropped_branch_need_not_do_what_a_rule_wants_later() -> None:
    steps = [acted(0, "verify_identity"), acted(1, "look", error=True), said(2, "done")]
    assert branched(steps, [(2, 0)], adopted=2) == ("pass", [], [])
    assert branched(steps, [], adopted=2)[0] != "pass"


def test_rules_are_undecided_where_branches_do_not_hold_together() -> None:
    steps = [acted(0, "verify_identity"), acted(1, "refund", amount=5)]
    assert branched(steps, [(1, 7)], adopted=1)[0] == "unknown"
