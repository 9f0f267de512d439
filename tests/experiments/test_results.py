"""Committed results: pages show what the files hold, and the parts of the experiments that need no long run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from assay.learning.skills.folder import validate_skill
from assay.learning.skills.records import HarmCheck, TrialRecord
from experiments import prompt_null, team_credit
from experiments._paired import arm_cells, gain_cells, mean_cell, range_cell, rate_cell, seed_gains, task_means
from experiments._results import PAGES, RESULTS, Bar, Recording, Result, Table, render_tables
from experiments.refused_skills import ALPHA, PLAN, make_skill, report
from experiments.repair_tries import ARMS, RepairTry, expect, take_majority
from experiments.repair_tries import report as report_tries

pytestmark = pytest.mark.newest


def test_every_table_on_a_page_is_the_committed_result() -> None:
    pages = [path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*.md"))]
    assert [render_tables(page) for page in pages] == pages
    shown = "".join(pages)
    for path in RESULTS.glob("*.json"):
        if b'"planned"' not in path.read_bytes():
            continue  # of an experiment with a format of its own
        found = msgspec.json.decode(path.read_bytes(), type=Result)
        assert len(found.commit) == 40
        assert found.seeds
        assert f"<!-- measured: {path.stem} " in shown


def test_a_bar_is_not_decided_before_all_planned_seeds_were_run(capsys: pytest.CaptureFixture[str]) -> None:
    table, bar = {"t": Table(["a", "b"], [["x", "1"]])}, Bar("at least 1", "1", met=True)
    for planned, word in (([1, 2], "not decided"), ([1], "met")):
        Recording("n", "c", [1], "p", enabled=False, planned=planned).write(table, [bar])
        assert f"{word}: at least 1: 1" in capsys.readouterr().out


def test_a_page_shows_tables_bars_and_the_run(tmp_path: Path) -> None:
    bars = [Bar("b", "2", met=False), Bar("c", "3", met=None)]
    found = Result("run it", "0" * 40, {}, [1], [1, 2], "plan", 3.2, bars, {"the t": Table(["a"], [["x"]])})
    (tmp_path / "n.json").write_bytes(msgspec.json.encode(found))
    page = "".join(f"<!-- measured: n {title} -->\nold\n<!-- end -->\n" for title in ("the t", "bars", "run"))
    shown = render_tables(page, tmp_path)
    assert "old" not in shown
    assert "| a |\n|---|\n| x |" in shown
    assert "- **Missed**: b: 2.\n- **Not decided**: c: 3." in shown
    assert "Commit `00000000`, seeds 1 (planned and not run: 2): `run it`." in shown
    many = msgspec.structs.replace(found, seeds=list(range(3, 43)), planned=list(range(3, 43)))
    (tmp_path / "n.json").write_bytes(msgspec.json.encode(many))
    assert "seeds 3 to 42: `run it`." in render_tables(page, tmp_path)


def test_cells_of_a_comparison_show_mean_interval_and_range() -> None:
    assert mean_cell([0.5]) == "+0.500"
    assert mean_cell([0.0, 0.5]) == "+0.250 [-1.000, +1.000]"  # Student's quantile of one degree of freedom is 12.7
    assert mean_cell([-0.1, -0.3, -0.2], 20, 1) == "-4.0 [-9.0, +1.0]"
    assert range_cell([0.2, -0.1, 0.0]) == "-0.10 to +0.20"
    base, arm = [[0.0, 1.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]]
    assert arm_cells(base, None) == ["0.250", "0.00 to 0.50", "-"]
    assert arm_cells(arm, base) == ["0.750", "0.50 to 1.00", mean_cell([1, 0, 0, 1])]


def test_cells_of_measures_by_seed_and_task() -> None:
    base = {(1, "a"): 0.0, (2, "a"): 0.5, (1, "b"): 0.5, (2, "b"): 0.0}
    better = {key: value + 0.5 * (key != (2, "b")) for key, value in base.items()}
    assert task_means(better) == {"a": 0.75, "b": 0.5}
    assert seed_gains(better, base) == [0.5, 0.25]
    assert gain_cells(better, base) == [mean_cell([0.5, 0.25]), "+0.25 to +0.50"]
    assert gain_cells(base, base) == ["-", "-"]
    assert rate_cell([0.4]) == "0.400"
    assert rate_cell([0.0, 1.0]).startswith("0.500 [0.0")


def test_equal_prompts_are_refused_and_a_better_one_would_not_be() -> None:
    draw = np.random.default_rng(1)
    equal = (draw.random((42, 6)) < 0.4).astype(float)
    found = [prompt_null.draw_search(equal, draw) for _ in range(300)]
    assert np.mean([one[2] for one in found]) <= 0.05
    assert np.mean([one[0] for one in found]) > 0.15  # the winner's curse
    assert abs(np.mean([one[1] for one in found if one[1] is not None])) < 0.03


def test_simulated_estimates_are_unbiased_and_coupled_ones_vary_least() -> None:
    pairs, draw = np.array([[0.8, 0.3], [0.4, 0.4], [0.1, 0.6]]), np.random.default_rng(2)
    independent = np.array([team_credit._independent(pairs, 8, draw) for _ in range(3_000)])
    coupled = np.array([team_credit._coupled(pairs, 8, draw) for _ in range(3_000)])
    for one in (independent, coupled):
        assert one.mean(axis=0) == pytest.approx([0.5, 0.0, -0.5], abs=0.02)
    assert (coupled.var(axis=0) < independent.var(axis=0)).all()
    assert coupled.var(axis=0) == pytest.approx([0.25 / 8, 0.0, 0.25 / 8], abs=0.003)
    limit = team_credit.simulate_ceiling(pairs, 8)
    assert limit.independent < limit.coupled <= 1.0


def test_combinators_of_recorded_tries_choose_as_the_agents_do() -> None:
    lost, done, wrong = (
        RepairTry(False, False, "a", 2, 20),
        RepairTry(True, True, "b", 3, 5),
        RepairTry(False, True, "c", 4, 9),
    )
    found = {name: choose([lost, wrong, done]) for name, choose in ARMS.items()}
    assert [one.chosen for one in found.values()] == [lost, done, wrong, lost]
    assert [len(one.made) for one in found.values()] == [1, 3, 2, 3]
    assert take_majority([lost, done, done]).chosen == done
    # retry hands in the earlier one of done and wrong, which agree in nothing that it sees
    assert expect([lost, wrong, done], ARMS["retry up to 3, visible tests"])[0] == pytest.approx(1 / 2)
    assert expect([lost, wrong, done], ARMS["best of 3, verdict"]) == (1.0, 9.0, 34.0, 3.0)


def test_the_skills_that_are_to_be_refused_are_valid() -> None:
    found = [make_skill(name, "assay/networkx-1") for name in PLAN if name != "learnt"]
    assert all(validate_skill(one) == () for one in found)
    assert ["assay/networkx-1" in one.text for one in found] == [True, False, False, False]
    assert 4 * ALPHA <= 0.05  # of the four trials that are run


def test_a_refusal_for_another_reason_than_the_planned_one_misses_its_bar(capsys: pytest.CaptureFixture[str]) -> None:
    trial = TrialRecord(
        accepted=False, causes=("harm", "no gain"), reasons=("lost",), holdout="", alpha=0.1, arms=(), p_none=None,
        p_placebo=None, harm_check=HarmCheck(("a", "b"), 9, 3, (26, 8), 0.002, 0.025),
    )  # fmt: skip
    leak, gain = (msgspec.structs.replace(trial, causes=(cause,), harm_check=None) for cause in ("leak", "no gain"))
    seeds = {seed: {"leaking": leak, "harmful": trial, "learnt": gain, "null": gain} for seed in range(1, 6)}
    seeds[5] = {**seeds[5], "leaking": gain, "null": trial}
    seeds[4] = {**seeds[4], "null": trial, "learnt": msgspec.structs.replace(gain, accepted=True)}
    report(seeds, Recording("n", "c", [1, 2, 3, 4, 5], "p", enabled=False))
    shown = capsys.readouterr().out
    assert "26 of 27 and 8 of 27 | refused: harm, no gain" in shown
    bars = {line.split()[1]: line for line in shown.splitlines() if line.startswith(("met: ", "missed: "))}
    verdicts = {name: (line.partition(":")[0], line.rpartition(": ")[2]) for name, line in bars.items()}
    assert verdicts == {
        "leaking": ("missed", "released in 0, refused so in 4 of 5"),
        "harmful": ("met", "released in 0, refused so in 5 of 5"),
        "learnt": ("missed", "released in 1, refused so in 4 of 5"),
        "null": ("missed", "released in 0, refused so in 3 of 5"),
    }


def test_tries_of_all_seeds_are_averaged_by_task_and_shown_by_seed(capsys: pytest.CaptureFixture[str]) -> None:
    lost, done = RepairTry(False, False, "a", 2, 20), RepairTry(True, True, "b", 3, 5)
    seeds = [{"t": [lost, lost, done], "u": [lost, lost, lost]}, {"t": [done, done, done], "u": [lost, done, lost]}]
    report_tries(seeds, Recording("n", "c", [1, 2], "p", enabled=False))
    shown = capsys.readouterr().out
    assert "| the agent | 0.417 | - | - |" in shown
    assert "| best of 3, verdict | 0.750 | +0.333 [" in shown
    assert "| +0.33 to +0.33 |" in shown
    assert "| 1 of 6 | 1 |\n| 4 of 6 | 1 |" in shown
