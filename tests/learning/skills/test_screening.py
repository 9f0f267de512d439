"""Planted leaks, and the decision of a trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.learning.skills.decision import decide_trial
from assay.learning.skills.folder import SkillFolder
from assay.learning.skills.leaks import scan_leaks, secrets_of_task
from assay.learning.skills.trial import screen_skill
from assay.records import Check, EnvironmentSpec, Task
from assay.statistics import TaskCount
from assay.tasks import LoadedTask

INSTRUCTION = "Write the total of all invoices of the year to total.txt, rounded to the nearest cent, with a newline."
TESTS = "def test_total_is_right():\n    assert read('total.txt') == 48213.77\n    assert owner == 'ACME-2291-B'\n"
SOLUTION = "#!/bin/sh\nawk -F, '{ sum += $7 } END { print sum }' invoices.csv > total.txt\n"
PLANTED = {
    "test name": "The test test_total_is_right wants it.",
    "assertion": "Mind assert read('total.txt') == 48213.77 there.",
    "literal": "The answer is 48213.77 here.",
    "oracle line": "Use awk -F, '{ sum += $7 } END { print sum }' invoices.csv > total.txt for this.",
    "task id": "In task invoices-17 do this.",
    "instruction": INSTRUCTION,
}


@pytest.fixture
def task(tmp_path: Path) -> LoadedTask:
    for folder, name, text in (("tests", "test_outputs.py", TESTS), ("solution", "solve.sh", SOLUTION)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    return LoadedTask(
        Task("invoices-17", INSTRUCTION, EnvironmentSpec("namespaces", {}, 0), (Check("c", "facts", {}),), digest="d"),
        tmp_path,
    )


def skill(text: str) -> SkillFolder:
    return SkillFolder("guide", {"SKILL.md": f"---\nname: guide\ndescription: d\n---\n{text}\n".encode()})


@pytest.mark.parametrize("kind", PLANTED)
def test_planted_leak_is_found(task: LoadedTask, kind: str) -> None:
    found = scan_leaks(skill(PLANTED[kind]), [secrets_of_task(task)])
    assert kind in {one.kind for one in found}
    refused = screen_skill(skill(PLANTED[kind]), [task])
    assert refused is not None
    assert refused.causes == ("leak",)


def test_skill_of_the_field_is_no_leak(task: LoadedTask) -> None:
    text = "Sum a column with awk; write results to a file. Run pytest test_outputs.py. Round to 2 digits."
    assert scan_leaks(skill(text), [secrets_of_task(task)]) == []
    assert screen_skill(skill(text), [task]) is None


def test_invalid_skill_is_refused_unrun(task: LoadedTask) -> None:
    refused = screen_skill(SkillFolder("guide", {"SKILL.md": b"no front matter"}), [task])
    assert refused is not None
    assert refused.causes == ("invalid",)


def counts(rates: list[float], attempts: int = 4) -> list[TaskCount]:
    return [
        TaskCount("a", None, f"t{n:03}", round(rate * attempts), attempts - round(rate * attempts), 0, 0)
        for n, rate in enumerate(rates)
    ]


def test_each_refusal_has_its_cause() -> None:
    low, high = counts([0.25] * 12), counts([0.75] * 12)
    assert decide_trial(low, high, low, 0.03).causes == ()
    assert decide_trial(low, low, low, 0.03).causes == ("no gain", "no gain over placebo")
    assert decide_trial(low, high, high, 0.03).causes == ("no gain over placebo",)
    assert decide_trial(high, low, None, 0.03).causes == ("harm", "no gain")
    one_lost = counts([0.0] + [0.75] * 11)
    assert decide_trial(low, one_lost, None, 0.03, ["t000"]).causes == ("protected",)
