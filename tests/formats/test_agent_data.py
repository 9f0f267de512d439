"""Every file of the shared recorded runs is read, and what is known of them holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from assay.formats.interface import ReadProblem
from assay.records import ModelCalled
from tests.formats.agents import ALL, facts_of, imported, steps_of, verdict_of
from tests.sampling import draw_sample


def test_tau_bench_rewards_are_those_recorded(shared_data: Path) -> None:
    (path,) = (shared_data / "tau-bench").glob("*.json")
    runs, bad = imported(ALL["tau-bench"], path)
    assert not bad
    assert Counter(verdict_of(one).status for one in runs) == {"pass": 31, "fail": 69}
    assert Counter(one.started.task for one in runs) == {str(task): 4 for task in range(25)}
    assert {one.started.number for one in runs} == {0, 1, 2, 3}
    assert all("imported" in verdict_of(one).marks and verdict_of(one).evidence for one in runs)


def test_tau_bench_keeps_what_the_reward_rests_on(shared_data: Path) -> None:
    (path,) = (shared_data / "tau-bench").glob("*.json")
    runs, _ = imported(ALL["tau-bench"], path)
    told = [fact for one in runs for fact in facts_of(one, "expectation")]
    assert Counter(key for fact in told for key in fact.data["info"]) == {
        "r_actions": 88,
        "gt_data_hash": 88,
        "r_outputs": 9,
        "outputs": 9,
    }
    answered = [o for one in runs for s in steps_of(one) if s.tool_calls for o in s.observations]
    assert len(answered) == 621
    assert all(o.call_id for o in answered)


def test_swe_agent_files_are_all_read(shared_data: Path) -> None:
    files = sorted((shared_data / "swe-agent").rglob("*.traj"))
    read = [imported(ALL["swe-agent"], path) for path in files]
    assert [bad for _, bad in read if bad] == []
    assert sum("ctf" in path.parts for path in files) == 9
    agents = [s for (one,), _ in read for s in steps_of(one) if s.actor == "agent"]
    assert (len(files), len(agents)) == (22, 232)
    assert sum(bool(step.tool_calls) for step in agents) == len(agents)


def test_swe_smith_reports_are_kept_with_their_contradictions(shared_data: Path) -> None:
    root = shared_data / "swe-smith"
    trajectories = [one for path in root.rglob("*.traj") for one in imported(ALL["swe-agent"], path)[0]]
    alone = [one for path in root.rglob("report.json") for one in imported(ALL["swe-smith"], path)[0]]
    assert [one.started.task for one in alone] == ["getmoto__moto.694ce1f4.pr_7331"]
    said = {one.started.task.split(".")[-1]: facts_of(one, "patch")[0].data for one in (*trajectories, *alone)}
    assert {name for name, patch in said.items() if patch["resolved"] and not patch["applied"]} == {
        "pr_7331",
        "pr_53652",
        "pr_8316",
    }
    report = facts_of(alone[0], "test_report")[0].data
    assert (report["source"], report["counts"], report["total"]) == ("report", {"passed": 210, "failed": 0}, 210)
    assert facts_of(alone[0], "test_output")[0].data["text"].startswith("+ source")


def test_swe_smith_files_that_are_no_run_say_what_they_are(shared_data: Path) -> None:
    reasons = _reasons("swe-smith", sorted((shared_data / "swe-smith").rglob("*.json")))
    assert Counter(reason.split(":")[0] for reason in reasons) == {
        "the report is read with its trajectory": 3,
        "it is a task of SWE-smith, not a run": 1,
        "it is the summary of an evaluation, whose attempts have reports of their own": 1,
        "it is the validation of a task, not a run": 1,
    }


def _reasons(name: str, paths: list[Path]) -> list[str]:
    told: list[ReadProblem] = []
    for path in paths:
        told += imported(ALL[name], path)[1]
    return [one.problem for one in told]


@pytest.mark.long
def test_spark_attempts_are_read_once(shared_data: Path) -> None:
    folders = sorted(path for path in (shared_data / "spark-skills").iterdir() if path.is_dir())
    read = {folder.name: imported(ALL["spark"], folder) for folder in folders}
    assert not [bad for _, bad in read.values() if bad]
    attempts = [one for runs, _ in read.values() for one in runs]
    assert (len(folders), len(attempts)) == (38, 103)
    assert Counter(verdict_of(one).status for one in attempts) == {"fail": 69, "pass": 32, "unknown": 2}
    files = sorted((shared_data / "spark-skills").glob("*/*.json*"))
    assert len([one for path in files for one in imported(ALL["spark"], path)[0]]) == len(attempts)


@pytest.mark.long
def test_spark_passes_whose_counts_do_not_support_them(shared_data: Path) -> None:
    folders = sorted(path for path in (shared_data / "spark-skills").iterdir() if path.is_dir())
    odd = set()
    for one in (one for folder in folders for one in imported(ALL["spark"], folder)[0]):
        recorded = next(f.data for f in facts_of(one, "test_report") if f.data["source"] == "recorded")
        passed, total = recorded["counts"]["passed"], recorded["total"]
        if verdict_of(one).status == "pass" and (total == 0 or passed < total):
            odd.add((one.started.task, one.started.number, passed, total))
    assert odd == {
        ("glm-lake-mendota", 0, 0, 0),
        ("python-scala-translation", 0, 0, 0),
        ("r2r-mpc-control", 3, 0, 0),
        ("court-form-filling", 0, 3, 5),
        ("energy-ac-optimal-power-flow", 0, 23, 24),
        ("sales-pivot-analysis", 1, 9, 10),
    }


def test_spark_commands_have_their_exit_codes(shared_data: Path) -> None:
    (one,) = imported(ALL["spark"], shared_data / "spark-skills" / "glm-lake-mendota")[0]
    seen = [o for step in steps_of(one) for o in step.observations]
    assert all(o.exit_code is not None for o in seen)
    assert len(seen) > 20
    assert facts_of(one, "test_output")[0].data["text"]
    assert [body.name for body in one.bodies if hasattr(body, "name")] == ["spark.skill_gen_call", "spark.task_summary"]


@pytest.mark.long
def test_agentlens_runs_are_read_with_their_labels(shared_data: Path) -> None:
    files = sorted((shared_data / "agentlens-bench" / "trajectories").rglob("*.json"))
    read = [imported(ALL["agentlens"], path) for path in files]
    assert not [bad for _, bad in read if bad]
    runs = [one for ones, _ in read for one in ones]
    assert len(runs) == 193
    assert Counter(verdict_of(one).status for one in runs) == {"pass": 122, "fail": 71}
    labels = [facts_of(one, "label")[0] for one in runs]
    assert all(isinstance(label.data["quality_score"], int) and label.channel == "audit" for label in labels)
    steps = [step for one in runs for step in steps_of(one)]
    assert (len(steps), sum(bool(step.extra.get("cut")) for step in steps)) == (6445, 3098)


def test_agentlens_states_keep_their_numbers(shared_data: Path) -> None:
    name = "astropy__astropy-13236-logs-sonnet-4.5-pass-24932719213_pta.json"
    (path,) = (shared_data / "agentlens-bench" / "trajectories").rglob(name)
    (one,) = imported(ALL["agentlens"], path)[0]
    commands = [step.tool_calls[0].parsed or {} for step in steps_of(one)[26:30]]
    assert ["log --all" in c["command"] for c in commands] == [True, True, False, False]
    assert ["git show a04fb7c355" in c["command"] for c in commands] == [False, False, True, True]
    assert steps_of(one)[0].actor == "user"


@pytest.mark.long
def test_agentlens_files_that_are_no_run_say_what_they_are(shared_data: Path) -> None:
    root = shared_data / "agentlens-bench"
    others = [root / "annotations" / "trajectories.csv", root / "dataset_summary.json"]
    reasons = _reasons("agentlens", [*root.glob("ground_truth/*.json"), *others])
    assert sum("merged from" in reason for reason in reasons) == 6
    assert len(reasons) == 8


@pytest.mark.long
def test_who_and_when_labels_point_at_their_step(shared_data: Path) -> None:
    files = sorted((shared_data / "who-and-when").rglob("*.json"))
    read = [imported(ALL["who-and-when"], path) for path in files]
    assert (len(read), [bad for _, bad in read if bad]) == (126, [])
    said = [(steps_of(one), facts_of(one, "label")[0].data) for (one,), _ in read]
    assert all(len(label["steps"]) == 1 for _, label in said)
    agree = sum(steps[label["steps"][0]].extra["name"] == label["mistake_agent"] for steps, label in said)
    assert agree == 123
    terminal = [s for steps, _ in said for s in steps if s.extra["name"] == "Computer_terminal"]
    assert all(step.actor == "environment" and step.observations for step in terminal)
    assert {verdict_of(one).status for (one,), _ in read} == {"fail"}


def test_agentrx_failures_point_at_their_steps(shared_data: Path) -> None:
    runs, bad = imported(ALL["agentrx"], shared_data / "agentrx" / "tau_dataset_failed.json")
    assert (len(runs), bad) == (29, [])
    labels = [facts_of(one, "label")[0].data for one in runs]
    assert sum(len(label["failures"]) for label in labels) == 39
    assert sum(label["root_cause"]["failure_id"] == label["failures"][0]["failure_id"] for label in labels) == 27
    for one, label in zip(runs, labels, strict=True):
        for failure, step in zip(label["failures"], label["steps"], strict=True):
            positions = [item["at"] for item in steps_of(one)[step].extra["items"]]
            assert failure["step_number"] - 1 in positions
    assert _reasons("agentrx", [shared_data / "agentrx" / "tau_ground_truth.json"]) == [
        "the file holds labels of runs: import tau_dataset_failed.json"
    ]


@pytest.mark.long
def test_no_file_is_of_two_formats(shared_data: Path) -> None:
    names = ("swe-agent", "swe-smith", "tau-bench", "agentlens-bench", "who-and-when", "agentrx", "spark-skills")
    for path in (path for name in names for path in draw_sample(sorted((shared_data / name).rglob("*.*")), 30)):
        taken = [name for name, format in ALL.items() if format.recognises(path)]
        assert len(taken) <= 1, (path, taken)
        if path.suffix in {".traj", ".json"}:
            assert len(taken) == 1, path


def test_what_the_model_was_asked_is_kept_once(shared_data: Path) -> None:
    path = next((shared_data / "swe-smith" / "trajectories").rglob("*pydantic*.traj"))
    (one,) = imported(ALL["swe-agent"], path)[0]
    calls = [body.call for body in one.bodies if isinstance(body, ModelCalled)]
    assert len(calls) == 22
    assert sum(call.shared_messages for call in calls) > 300
    assert sum(len(call.request["messages"]) for call in calls) < 120
