"""Attempts that several probes share: who shares, what clears whom, and what is then tried alone."""

from __future__ import annotations

from typing import Any

import pytest

from assay.admission.bundles import bundle_cheats, uncleared
from assay.admission.config import AdmitConfig
from assay.admission.knowledge import _READS_REPORTS, _RUNS_PYTEST
from assay.admission.probe import Probe
from assay.admission.probe_results import ProbeResult
from assay.admission.soundness import TaskEvidence, TaskReport, judge_task
from assay.admission.variations import Circumstance, combine
from assay.agents.cheats import CHEATS
from assay.agents.cheats.interface import BUNDLES, CheatAgent, Knowledge
from assay.rollout.attempt.variation import Variation
from assay.rollout.plan import Verification

pytestmark = pytest.mark.quick
KNOWLEDGE = Knowledge("/workspace")


def shared(verification: Verification = "default", names: set[str] | None = None) -> dict[str, Probe]:
    chosen = [cheat for cheat in CHEATS if names is None or cheat.name in names]
    probes = [
        Probe(f"cheat.{c.name}", "cheat", "fail", CheatAgent(c, KNOWLEDGE), c.exploits, verification) for c in chosen
    ]
    return {probe.name: probe for probe in bundle_cheats(probes, KNOWLEDGE, verification)}


def seen(probe: str, outcome: Any, group: Any = "cheat", **more: Any) -> ProbeResult:
    return ProbeResult(probe, group, "fail", "default", f"about {probe}", probe, f"{probe}.0", outcome, **more)


def report(*observed: ProbeResult) -> TaskReport:
    oracle = seen("oracle.1", "pass", "completeness")
    return judge_task(TaskEvidence("t", "blake3:t", ("default",), True, (oracle, *observed), ()))


@pytest.mark.parametrize("verification", ["default", "as_asked"])
def test_each_cheat_is_tried_once_alone_or_together(verification: Verification) -> None:
    found = shared(verification)
    alone = [name for name in found if not name.endswith("-together")]
    members = [member.name for probe in found.values() for member in probe.members]
    assert sorted([*alone, *members]) == sorted(f"cheat.{cheat.name}" for cheat in CHEATS)
    assert {f"cheat.{name}-together" for name in BUNDLES} <= set(found)


def test_a_cheat_without_a_mate_is_tried_alone() -> None:
    assert set(shared(names={"late-writer", "full-disk"})) == {"cheat.late-writer", "cheat.full-disk"}


def test_what_changes_the_same_files_waits_for_the_first_only_where_no_process_lives_on() -> None:
    names = {"edited-tests", "deleted-tests"}
    assert [m.name for m in shared("default", names)["cheat.edited-tests"].members] == ["cheat.deleted-tests"]
    assert set(shared("as_asked", names)) == {"cheat.edited-tests", "cheat.deleted-tests"}


def test_members_are_tried_alone_only_where_their_attempt_cleared_none() -> None:
    probes = list(shared().values())
    background = next(probe for probe in probes if probe.name == "cheat.background-together")
    assert list(uncleared(probes, {background.id: ("cheat.late-writer",)})) == []
    assert list(uncleared(probes, {background.id: ()})) == list(background.members)


def test_a_hole_is_named_by_the_member_that_got_through() -> None:
    names = ("cheat.late-writer", "cheat.exhausted-processes")
    together = seen("cheat.background-together", "pass", members=names)
    found = report(together, seen(names[0], "pass"), seen(names[1], "fail"))
    assert [f.probe for f in found.findings] == ["cheat.late-writer"]


def test_what_only_passes_together_is_a_hole_all_the_same() -> None:
    names = ("cheat.late-writer", "cheat.exhausted-processes")
    found = report(seen("cheat.background-together", "pass", members=names), *(seen(name, "fail") for name in names))
    assert [(f.kind, f.probe) for f in found.findings] == [("cheat-passed", "cheat.background-together")]
    assert not found.is_admitted


def test_what_a_shared_attempt_cleared_counts_as_seen_under_every_circumstance() -> None:
    names = ("oracle.locale", "oracle.test-order")
    both = seen("oracle.all-circumstances", "pass", "completeness", holds=True, members=names, covers=names[:1])
    found = report(both)
    assert (found.completeness.circumstances["locale"], found.completeness.circumstances["test-order"]) == (
        "pass",
        "not tested",
    )
    assert [one.probe for one in found.untried] == ["oracle.test-order"]


def test_circumstances_are_combined_into_one_variation() -> None:
    first = Circumstance("a", Variation("a", env={"A": "1"}, prefix=("one",)))
    second = Circumstance("b", Variation("b", env={"B": "2"}, no_network=True))
    made = combine([first, second])
    assert (made.variation.env, made.variation.prefix) == ({"A": "1", "B": "2"}, ("one",))
    assert made.variation.no_network


def test_a_sleeping_program_that_the_verifier_waits_for_is_not_tested() -> None:
    assert [one.probe for one in report(seen("cheat.sleeping-program", "unknown")).untried] == [
        "cheat.sleeping-program"
    ]


def test_changed_solutions_take_the_room_that_is_left_but_for_a_few() -> None:
    config = AdmitConfig()
    assert (config.most_mutants(12), config.most_mutants(-3)) == (12, 4)
    assert (config.most_variants(12), config.most_variants(-3), config.most_variants(500)) == (2, 1, 10)
    asked = AdmitConfig(mutants=20, variants=0)
    assert (asked.most_mutants(1), asked.most_variants(1)) == (20, 0)
    assert AdmitConfig(quick=True).most_mutants(30) == 0


@pytest.mark.parametrize(
    ("script", "pytest_too", "reports_too"),
    [
        ("diff /tests/a /workspace/a", False, False),
        ("python3 -m pytest -q /tests", True, False),
        ("grep failures /tmp/junit.xml", False, True),
        ("cd /workspace && make test", True, True),
        ("./run.sh", True, True),
    ],
)
def test_only_a_verifier_whose_files_show_all_is_known_to_run_no_pytest(
    script: str, pytest_too: bool, reports_too: bool
) -> None:
    assert (bool(_RUNS_PYTEST.search(script)), bool(_READS_REPORTS.search(script))) == (pytest_too, reports_too)
