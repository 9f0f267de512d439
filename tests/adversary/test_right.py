"""Other right solutions: how they are made, and that a task that judges fairly takes them, and nothing wrong."""

from __future__ import annotations

import json
import random
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from assay.verify.separation_plan import PLAN_PATH, encode_plan
from tests.adversary.base_tasks import LEDGER_PLAN, SOLVED, TESTS, write_manifest
from tests.adversary.releases import solutions_from_release
from tests.adversary.rewriting import rewrite_task
from tests.adversary.right_campaign import RightCampaign, right_solutions, run_right_campaign
from tests.adversary.synthesised import RepairTask, script_of_edits
from tests.adversary.written import WRITTEN, apply_section, written_tasks

BROKEN = SOLVED.replace("sum(amount for _, amount in items)", "0").replace("max(values) - min(values)", "0")
RELEASE = SOLVED.replace("sum(amount for _, amount in items)", "sum([pair[1] for pair in items])")
WRONG_RELEASE = SOLVED.replace("max(values) - min(values)", "max(values)")
DOCKERFILE = "FROM scratch\nWORKDIR /workspace\nCOPY source.tar.gz ./\n"
UNPACK = "RUN /opt/assay/bin/python3 -m tarfile -e source.tar.gz . && rm source.tar.gz\n"


def write_task(folder: Path) -> RepairTask:
    """A synthesised task of the ledger, as `assay synth` lays it out."""
    for name in ("environment/changed", "tests", "solution"):
        (folder / name).mkdir(parents=True)
    with tarfile.open(folder / "environment/source.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("ledger.py")
        member.size = len(BROKEN)
        archive.addfile(member, BytesIO(BROKEN.encode()))
    (folder / "environment/Dockerfile").write_text(DOCKERFILE + UNPACK)
    (folder / "task.toml").write_text(write_manifest("plan"))
    (folder / "instruction.md").write_text("Repair ledger.py.\n")
    (folder / "tests/test_ledger.py").write_text(TESTS)
    (folder / "tests/test.sh").write_text("#!/bin/sh\n")
    (folder / PLAN_PATH).write_bytes(encode_plan(LEDGER_PLAN))
    right = ("sum(amount for _, amount in items)", "max(values) - min(values)")
    fix = [{"path": "ledger.py", "start": SOLVED.index(text), "broken": "0", "right": text} for text in right]
    (folder / "solution/fix.json").write_text(json.dumps(fix))
    return RepairTask(folder)


@pytest.fixture
def task(tmp_path: Path) -> RepairTask:
    return write_task(tmp_path / "tasks" / "ledger-1")


@pytest.mark.quick
def test_rewrites_are_programs_and_differ(task: RepairTask) -> None:
    made = list(rewrite_task(task))
    names = {solution.name.partition("-")[0] for solution in made}
    assert {"helper", "decorator", "reformatted", "rewritten"} <= names
    for solution in made:
        compile(solution.files["ledger.py"], solution.name, "exec")
        assert solution.files["ledger.py"] != SOLVED


@pytest.mark.quick
def test_rewrites_still_do_the_work(task: RepairTask) -> None:
    for solution in rewrite_task(task):
        space: dict[str, object] = {"__name__": "ledger"}
        exec(solution.files["ledger.py"], space)
        total, spread = space["total"], space["spread"]
        assert callable(total)
        assert callable(spread)
        assert (total([("a", 3), ("b", 4)]), spread([4, 9, 1])) == (7, 8), solution.name


@pytest.mark.quick
def test_equal_solutions_are_drawn_once(task: RepairTask) -> None:
    drawn = right_solutions(task, random.Random(1), 100, {"2": {"ledger.py": RELEASE}, "3": {"ledger.py": RELEASE}})
    texts = [solution.files["ledger.py"] for solution in drawn]
    assert len(set(texts)) == len(texts)
    assert len([solution.name for solution in drawn if solution.name.startswith("release")]) == 1
    assert len(right_solutions(task, random.Random(1), 2, {})) == 2


@pytest.mark.quick
def test_release_that_says_the_same_is_no_other_solution(task: RepairTask) -> None:
    assert not list(solutions_from_release(task, "1", {"ledger.py": SOLVED.replace("smallest;", "least;")}))
    (other,) = solutions_from_release(task, "2", {"ledger.py": RELEASE})
    assert "pair[1]" in other.files["ledger.py"]


@pytest.mark.quick
def test_script_of_edits_holds_what_differs_alone(task: RepairTask) -> None:
    text = script_of_edits({"a.py": "x = 1\n" * 9000}, {"a.py": "x = 1\n" * 8999 + "x = 2\n"})
    assert len(text) < 1000


@pytest.mark.quick
def test_written_solutions_are_many_and_apply() -> None:
    files = sorted(WRITTEN.glob("*/*.py"))
    assert len(files) >= 40
    assert len(written_tasks()) >= 20
    for path in files:
        text = path.read_text()
        assert text.startswith("# in: "), path
        compile(text, str(path), "exec")


@pytest.mark.quick
def test_section_replaces_bodies_and_appends_the_rest() -> None:
    section = "def total(items):\n    return _sum(items)\n\n\ndef _sum(items):\n    return 7\n"
    text = apply_section(BROKEN, section)
    assert '"""The sum of (name, amount) pairs\' amounts."""\n    return _sum(items)' in text
    assert text.endswith("def _sum(items):\n    return 7\n")


@pytest.mark.long
def test_right_solutions_pass_as_separate_and_wrong_ones_are_no_refusals(
    task: RepairTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = {"2": {"ledger.py": RELEASE}, "3": {"ledger.py": WRONG_RELEASE}}
    monkeypatch.setattr("tests.adversary.right_campaign.download_releases", lambda *_: releases)
    said: list[str] = []
    campaign = RightCampaign(0, (task.folder,), 3, tmp_path / "right.json", tmp_path)
    result = run_right_campaign(campaign, said.append)
    assert result["wrong_by_the_tests"] == ["plain-ledger-1--release-3-spread"]
    assert (result["right"], result["refused"]) == (4, 0), result["refusals"]
    assert result["by_source"] == {"release": 1, "rewrite": 3}
    assert any("not handed in" in line for line in said)
