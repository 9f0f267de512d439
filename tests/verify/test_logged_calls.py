"""Rules about who called, and when by the world's clock."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from assay.environments.services.plans import PlannedCall
from assay.environments.services.world import ServiceWorld
from assay.records import Check, EnvironmentSpec, Evidence, Observation, Step, Task, ToolCall, Verdict
from assay.verify.interface import WorldInput
from assay.verify.logged_calls import calls_of_plan, trace_of_calls
from assay.verify.service_checks import PolicyCheck, rule_results
from scripts.make_reference import ROOT
from tests.analysis.trajectories import trajectory
from tests.environments.services.lending import lending

RULE = """
contract = "library"
[[rules]]
name = "{name}"
kind = "{kind}"
when = '{when}'
require = '{require}'
"""


def rule(when: str, require: str, kind: str = "governance") -> str:
    return RULE.format(name="it", kind=kind, when=when, require=require)


NO_PERSON_LENDS = rule('call.role == "user"', 'call.name != "lend_book"', "invariant")
LENDS_ON_MONDAY = rule('call.name == "lend_book"', 'call.at < "2026-03-03"')
RETURNED = 'call.name == "return_book"'
WAITS_A_DAY = rule(RETURNED, 'call.minutes - latest(call.minutes, call.name == "lend_book") >= 1440')


def entry(action: str, role: str = "agent", now: str | None = "2026-03-02T09:00", code: str | None = None) -> Any:
    return {"role": role, "action": action, "arguments": {}, "code": code} | ({} if now is None else {"now": now})


def judge(contract: str, log: list[Any] | None, *, steps: bool = True, **more: Any) -> Verdict:
    check = Check("policy", "policy", {"contracts": [contract]})
    task = Task("t", "do it", EnvironmentSpec("services"), (check,), "blake3:0")
    made = [one["action"] for one in log or [entry("lend_book")] if one["role"] == "agent"] if steps else []
    acted = tuple(
        Step(n, "agent", tool_calls=(ToolCall(f"c{n}", name, "{}", {}),), observations=(Observation("", f"c{n}"),))
        for n, name in enumerate(made)
    )
    recorded = trajectory(acted)
    facts = more if log is None else {"calls": log, **more}
    given = WorldInput(task, check, facts, None, transcript=lambda: recorded)
    return asyncio.run(PolicyCheck().judge_world(given)).verdict


@pytest.mark.parametrize("steps", [True, False])
def test_a_rule_that_names_the_role_is_judged_over_the_calls_of_every_role(steps: bool) -> None:
    by_agent, by_person = [entry("lend_book")], [entry("lend_book", "user"), entry("find_member")]
    assert judge(NO_PERSON_LENDS, by_agent, steps=steps).status == "pass"
    assert judge(NO_PERSON_LENDS, by_person, steps=steps).status == "fail"
    anybody = rule('call.name == "lend_book"', "false", "invariant")
    assert judge(anybody, by_person, steps=steps).status == "pass"  # the agent lent nothing
    refused = [entry("lend_book", "user", code="forbidden")]
    assert judge(rule('call.role == "user"', "false", "precondition"), refused, steps=steps).status == "pass"


def test_a_rule_about_time_reads_the_clock_of_the_world() -> None:
    assert judge(LENDS_ON_MONDAY, [entry("lend_book")]).status == "pass"
    assert judge(LENDS_ON_MONDAY, [entry("lend_book", now="2026-03-04T08:00")]).status == "fail"
    soon, later = "2026-03-03T08:59", "2026-03-03T09:00"
    for now, status in ((soon, "fail"), (later, "pass")):
        assert judge(WAITS_A_DAY, [entry("lend_book"), entry("return_book", now=now)]).status == status


def test_without_a_log_that_fits_role_and_time_are_undecidable() -> None:
    trace = [{"action": "lend_book", "arguments": {}, "content": "{}", "error": False}]
    for contract in (LENDS_ON_MONDAY, rule('call.name == "lend_book"', 'call.role == "agent"')):
        assert judge(contract, None).status == "unknown"
        assert judge(contract, [entry("find_member")], trace=trace).status == "unknown"
        assert judge(contract, [entry("lend_book")], trace=trace).status == "pass"
    assert judge(LENDS_ON_MONDAY, [entry("lend_book", now=None)]).status == "unknown"
    assert judge(WAITS_A_DAY, [entry("lend_book", now="soon"), entry("return_book")]).status == "unknown"
    lend = ToolCall("c1", "lend_book", "{}", {})
    (found,) = rule_results([LENDS_ON_MONDAY], trace_of_calls([(lend, Observation(""))]), "here")
    assert found.status == "unknown"


def test_a_call_of_another_role_is_cited_by_the_agents_next_call() -> None:
    log = [entry("find_member"), entry("lend_book", "user"), entry("search_books"), entry("lend_book", "user")]
    assert "it" in judge(NO_PERSON_LENDS, log).reason
    assert judge(NO_PERSON_LENDS, [entry("lend_book", "user")]).status == "fail"  # and no call of the agent


def test_a_plan_is_judged_with_the_log_of_its_own_play() -> None:
    world = ServiceWorld.of([lending], 1)
    plan = [PlannedCall("wait", {"hours": 72}), PlannedCall("search_books", {"text": "x"})]
    calls = calls_of_plan(world, plan)
    told = [fields["call"] for fields in calls.agents.trace.positions]
    assert [(one["role"], one["at"], one["minutes"]) for one in told] == [
        ("agent", "2026-03-02T09:00", 0),
        ("agent", "2026-03-05T09:00", 4320),
    ]
    late = rule('call.name == "search_books"', 'call.at < "2026-03-03"')
    (found,) = rule_results([late], calls, "here")
    assert (found.status, found.broken) == ("fail", (1,))
    assert not world.calls


def test_the_contract_of_the_page_reads_role_and_time() -> None:
    page = (ROOT / "docs" / "how-to" / "write-a-service.md").read_text()
    contract = page.partition("```toml\n")[2].partition("```")[0]
    rent, back = entry("rent_bike"), entry("return_bike", now="2026-03-02T10:00")
    assert judge(contract, [rent, back]).status == "pass"
    assert (
        judge(contract, [rent, {**back, "now": "2026-03-02T09:59"}]).reason == "broken: hours/keep-a-bike-for-an-hour"
    )
    assert judge(contract, [entry("rent_bike", "user")]).reason == "broken: hours/persons-rent-no-bike"


def test_what_another_branch_read_says_nothing_of_the_judged_one() -> None:
    contract = rule(
        'call.name == "lend_book"', 'latest(result.data.free, call.name == "get_book") == true', "precondition"
    )

    def step(n: int, name: str, *, free: bool = True) -> Step:
        seen = Observation(f'{{"free": {str(free).lower()}}}', f"c{n}")
        return Step(n, "agent", tool_calls=(ToolCall(f"c{n}", name, "{}", {}),), observations=(seen,))

    log = [entry("find_member"), entry("get_book"), entry("lend_book")]
    for in_first, in_second in ((True, False), (False, True)):
        first = [step(0, "find_member"), step(1, "wait"), step(2, "get_book", free=in_first)]
        second = [step(3, "find_member"), step(4, "get_book", free=in_second), step(5, "lend_book")]
        evidence = (
            Evidence("b", "audit", "branch", {"branch": 1, "at": 3}),
            Evidence("a", "audit", "branch_adopted", {"branch": 1, "at": 6, "after": 5}),
        )
        recorded = msgspec.structs.replace(trajectory((*first, *second)), evidence=evidence)
        check = Check("policy", "policy", {"contracts": [contract]})
        task = Task("t", "do it", EnvironmentSpec("services"), (check,), "blake3:0")
        given = WorldInput(task, check, {"calls": log}, None, transcript=lambda made=recorded: made)
        verdict = asyncio.run(PolicyCheck().judge_world(given)).verdict
        assert verdict.status == ("pass" if in_second else "fail")
