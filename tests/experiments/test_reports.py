"""Reports of experiments: bars are decided by code, from figures worked out by hand, and only for the whole plan."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from assay.learning.skills.composites import MinedSkill
from assay.learning.skills.folder import SkillFolder
from experiments import composite_tools, memory, search, skill_gate, skills
from experiments._results import Recording
from experiments._running import make_parser, open_recording, open_store

pytestmark = pytest.mark.newest


def recording(*seeds: int) -> Recording:
    return Recording("n", "c", seeds, "p", enabled=False)


def verdicts(shown: str) -> list[str]:
    return [line.partition(":")[0] for line in shown.splitlines() if line.startswith(("met", "missed", "not decided"))]


def test_one_parser_has_the_options_that_an_experiment_needs(capsys: pytest.CaptureFixture[str]) -> None:
    whole = make_parser("d", ["a", "b"], [1, 2]).parse_args(["a"])
    assert whole == argparse.Namespace(part="a", seeds=[1, 2], store=None, record=False)
    assert make_parser("d", store=False, record=False).parse_args([]) == argparse.Namespace()
    with pytest.raises(SystemExit):
        make_parser("d", ["a"]).parse_args(["c"])
    assert "invalid choice" in capsys.readouterr().err


def test_a_part_of_the_planned_seeds_decides_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    given = make_parser("d", seeds=(1, 2)).parse_args(["--seeds", "2"])
    found = open_recording("n", "module part", given, "plan", (1, 2))
    assert found.seeds == [2]
    skills.report([result(0.5)], found)
    assert set(verdicts(capsys.readouterr().out)) == {"not decided"}


def test_runs_are_in_the_named_store_or_in_none_that_stays(tmp_path: Path) -> None:
    with open_store(tmp_path) as settings:
        assert settings.store == tmp_path
    assert tmp_path.is_dir()
    with open_store(None) as settings:
        scratch = settings.store
        assert scratch.is_dir()
    assert not scratch.exists()


def result(skill: float, *, cpu_s: float = 9.0, problems: int = 0, unverified: float = 0.02) -> skills.SeedResult:
    rates = {"none": 0.01, "skill": skill, "placebo": 0.02, "unverified": unverified}
    return skills.SeedResult(rates, [3, 4], cpu_s, problems, {"take a key": 4.5})


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (result(0.3), ["met"] * 5),
        (result(0.005), ["missed", "missed", "met", "met", "met"]),  # the mean does not save a seed below none
        (result(0.3, cpu_s=15.1), ["met", "met", "met", "missed", "met"]),
        (result(0.3, problems=1), ["met", "met", "met", "met", "missed"]),
        (result(0.3, unverified=0.05), ["met", "met", "missed", "met", "met"]),
    ],
)
def test_bars_of_the_rule_skill(
    second: skills.SeedResult, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    skills.report([result(0.6), second], recording(1, 2))
    shown = capsys.readouterr().out
    assert verdicts(shown) == expected
    assert "| 1 | 3, 4 | 0.010 | 0.600 | 0.020 |" in shown


def test_bars_of_the_memory_of_a_maze(capsys: pytest.CaptureFixture[str]) -> None:
    none, own = [[0.0, 1.0]] * 6, [[0.0, 1.0]] * 5 + [[1.0, 1.0]]
    arms = {"none": none, "own": own, "passes": none, "other, same-task": [[0.0, 1.0]], "other, any": [[1.0, 1.0]]}
    memory.report([arms], recording(1))
    shown = capsys.readouterr().out
    assert verdicts(shown) == ["met", "met"]
    assert "| own | 0.500 | 0.500 | 0.500 | 0.500 | 0.500 | 1.000 | +0.500" in shown
    assert "| used (`scope=any`) | 1.000 | +0.500" in shown
    memory.report([arms | {"own": none, "other, same-task": [[1.0, 0.0]]}], recording(1))
    assert verdicts(capsys.readouterr().out) == ["missed", "missed"]


def test_bars_of_best_first_search_want_two_worlds_and_half_of_the_gain() -> None:
    base = {search.RESTARTS: 0.1, search.PROGRESS: 0.5}
    worlds = {"a": base | {search.LEARNT: 0.31}, "b": base, "c": base | {search.PROGRESS: 0.2}}
    gain, learnt = search.make_bars(worlds)
    assert (gain.met, gain.measured) == (True, "a +0.400, b +0.400, c +0.100")
    assert (learnt.met, learnt.measured) == (True, "a 52%")
    worlds |= {"b": base | {search.PROGRESS: 0.3, search.LEARNT: 0.15}}
    assert [one.met for one in search.make_bars(worlds)] == [False, False]
    entropy = {name: {search.RESTARTS: 0.0, search.NOVELTY: 0.2, search.ENTROPY: 0.3} for name in "ab"}
    assert [one.met for one in search.make_entropy_bars(entropy)] == [True, True]


def test_the_gate_accepts_gains_and_few_worthless_skills() -> None:
    table, bars = skill_gate.report_searches(range(40))
    rates = [float(row[1]) for row in table.rows]
    assert rates[0] > 0.7 > 0.2 > max(rates[1:])
    assert bars[1].met is (rates[0] >= 0.85)
    gained, worthless = (skill_gate.simulate(case, range(40)) for case in (skill_gate.POWER[0], skill_gate.NULLS[0]))
    assert gained.accepted > 0.8 > 0.1 > worthless.accepted
    assert gained.shown.startswith(f"{gained.accepted:.3f} ± 0.0")


def app(name: str, calls: int, *, passed: bool = True) -> composite_tools.AppResult:
    plain, composite = (composite_tools.Outcome(done, n, 10, 0) for done, n in ((True, 10), (passed, calls)))
    mined = MinedSkill(SkillFolder(name, {}), (), (), 1, 0, 0)
    return composite_tools.AppResult(name, {"t": plain}, mined, {"t": plain}, {"t": composite})


def test_bars_of_composite_tools(capsys: pytest.CaptureFixture[str]) -> None:
    found = [app(name, 9) for name in "abcd"] + [app("e", 10)]
    composite_tools.report(found, recording(1), has_bars=True)
    shown = capsys.readouterr().out
    assert verdicts(shown) == ["met", "met"]
    assert "| a | 1 of 1 | 0 of 0 | 1, 1 | 0, 0 | 10.0 | 9.0 | 10% | 10.0 |" in shown
    composite_tools.report([*found[1:], app("f", 5, passed=False)], recording(1), has_bars=True)
    assert verdicts(capsys.readouterr().out) == ["missed", "met"]
    composite_tools.report([app("a", 9)._replace(mined=None), *found], recording(1), has_bars=False)
    shown = capsys.readouterr().out
    assert "| a | 1 of 1 | none mined | - |" in shown
    assert verdicts(shown) == []
