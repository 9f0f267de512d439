"""Planted leaks, and the decision of a trial."""

from __future__ import annotations

import base64
import gzip
import io
import random
import textwrap
import time
import zipfile
import zlib
from pathlib import Path

import msgspec
import numpy as np
import pytest

from assay.learning.skills.decision import (
    TaskPasses,
    TrialDecision,
    TrialDesign,
    add_harm_check,
    choose_harm_tasks,
    decide_trial,
)
from assay.learning.skills.folder import SkillFolder
from assay.learning.skills.leaks import TaskSecrets, scan_leaks, secrets_of_task
from assay.learning.skills.trial import passes_of, screen_skill
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


def test_leak_is_found_through_invisible_and_wide_characters(task: LoadedTask) -> None:
    for text in ("The test test_total\u200b_is_right.", "The answer is \uff14\uff18\uff12\uff11\uff13.77 here."):
        assert scan_leaks(skill(text), [secrets_of_task(task)])


SECRET = "assert read('total.txt') == 48213.77"
HIDDEN: dict[str, bytes] = {
    "another case": SECRET.upper().encode(),
    "decomposed letters with marks": "".join(f"{c}\u0336" for c in SECRET).encode(),
    "soft hyphens": "\u00ad".join(SECRET).encode(),
    "UTF-16": SECRET.encode("utf-16"),
    "base64": b"Decode: " + base64.b64encode(SECRET.encode()),
    "base64 in lines": "\n".join(textwrap.wrap(base64.b64encode(SECRET.encode()).decode(), 8)).encode(),
    "base64 twice": base64.b64encode(base64.b64encode(SECRET.encode())),
    "base64 after letters": b"x" + base64.urlsafe_b64encode(SECRET.encode()).rstrip(b"="),
    "hexadecimal digits": SECRET.encode().hex(" ").encode(),
    "escapes of Python": "".join(f"\\x{ord(c):02x}" for c in SECRET).encode(),
    "escapes of HTML": "".join(f"&#{ord(c)};" for c in SECRET).encode(),
    "escapes of URLs": "".join(f"%{ord(c):02X}" for c in SECRET).encode(),
    "gzip": gzip.compress(SECRET.encode()),
    "zlib in base64": base64.b64encode(zlib.compress(SECRET.encode())),
    "parts that a program joins": b"'assert rea' + 'd(' + 'total' + '.txt) =' + '= 4821' + '3.77'",
    "one letter a line": "\n".join(SECRET).encode(),
}


@pytest.mark.parametrize("how", HIDDEN)
def test_leak_in_another_encoding_is_found(task: LoadedTask, how: str) -> None:
    files = {"SKILL.md": b"---\nname: guide\ndescription: d\n---\n", "notes.bin": HIDDEN[how]}
    assert "assertion" in {one.kind for one in scan_leaks(SkillFolder("guide", files), [secrets_of_task(task)])}


def test_leak_in_an_archive_is_found(task: LoadedTask) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("notes.txt", base64.b64encode(SECRET.encode()))
    files = {"SKILL.md": b"---\nname: guide\ndescription: d\n---\n", "assets.zip": packed.getvalue()}
    assert scan_leaks(SkillFolder("guide", files), [secrets_of_task(task)])


def test_hostile_data_is_read_within_bounds(task: LoadedTask) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"a" * (64 << 20))
    drawn = random.Random(1)
    bombs = [packed.getvalue(), zlib.compress(b"A" * (64 << 20)), b"A" * (4 << 20), drawn.randbytes(1 << 20)]
    started = time.process_time()
    for data in (*bombs, b"PK\x03\x04" + drawn.randbytes(1000), b"\x1f\x8b" + drawn.randbytes(1000), b"%" * (1 << 20)):
        assert scan_leaks(SkillFolder("guide", {"SKILL.md": b"x", "data": data}), [secrets_of_task(task)]) == []
    assert time.process_time() - started < 60


@pytest.mark.parametrize("text", ["See invoices-17.", "See `invoices-17`.", "tasks/invoices-17/x", "invoices-17.md"])
def test_id_is_found_whatever_stands_beside_it(task: LoadedTask, text: str) -> None:
    assert [one.kind for one in scan_leaks(skill(text), [secrets_of_task(task)])] == ["task id"]


def test_longer_id_is_another(task: LoadedTask) -> None:
    assert scan_leaks(skill("See invoices-170 and old_invoices-17."), [secrets_of_task(task)]) == []


def test_leak_in_the_name_of_a_file_is_found(task: LoadedTask) -> None:
    files = {**skill("x").files, "scripts/test_total_is_right.py": b""}
    (found,) = scan_leaks(SkillFolder("guide", files), [secrets_of_task(task)])
    assert found.kind == "test name"


def test_values_of_checks_are_secrets_of_tasks_without_a_folder(task: LoadedTask) -> None:
    check = Check("c", "facts", {"equals": {"total": 918273, "owner": "ACME-7-X", "deep": [True, 1]}})
    bare = LoadedTask(msgspec.structs.replace(task.task, checks=(check,)), None)
    assert [one.text for one in scan_leaks(skill("Say 918273, and ACME-7-X."), [secrets_of_task(bare)])] == [
        "918273", "ACME-7-X",
    ]  # fmt: skip


def test_scan_of_a_large_skill_and_many_secrets_is_fast(task: LoadedTask) -> None:
    needles = tuple(("instruction", f"sentence {n} about the invoices of month {n} of the year") for n in range(20_000))
    started = time.process_time()
    assert scan_leaks(skill("the invoices of the year " * 100_000), [TaskSecrets("t", needles)]) == []  # type: ignore[arg-type]
    assert time.process_time() - started < 20


def passes(none: int, skilled: int, placebo: int | None, tasks: int = 12) -> list[TaskPasses]:
    return [TaskPasses(f"t{n:03}", none, skilled, placebo) for n in range(tasks)]


def decide(*looks: list[TaskPasses], protected: frozenset[str] = frozenset(), planned: int = 0) -> TrialDecision:
    decision = decide_trial(looks, TrialDesign(0.05, planned or sum(map(len, looks)), 4, protected))
    assert decision is not None
    return decision


def test_each_refusal_has_its_cause() -> None:
    assert decide(passes(1, 3, 1)).causes == ()
    assert decide(passes(1, 1, 1)).causes == ("no gain", "no gain over placebo")
    assert decide(passes(1, 3, 3)).causes == ("no gain over placebo",)
    assert decide(passes(3, 1, None)).causes == ("harm", "no gain")
    one_lost = [TaskPasses("t", 1, 0), *passes(1, 3, None)]
    assert decide(one_lost, protected=frozenset({"t"})).causes == ("protected",)


def test_loss_of_what_mostly_passes_is_harm_beside_a_gain() -> None:
    lost = [TaskPasses(f"easy{n}", 4, 3, 4) for n in range(6)]
    decision = decide([*lost, *passes(0, 3, 0, tasks=40)])
    assert decision.causes == ("harm",)
    assert "tasks that mostly pass" in decision.reasons[0]


def test_tasks_that_passed_by_chance_without_the_skill_are_no_harm() -> None:
    """The placebo takes the way of no skill with equal seeds; the skill takes another one of the same rate."""
    lucky = [TaskPasses(f"a{n}", 1, n % 2, 1) for n in range(30)]
    unlucky = [TaskPasses(f"b{n}", 0, n % 2, 0) for n in range(30)]
    decision = decide_trial([[*lucky, *unlucky]], TrialDesign(0.05, 60))
    assert decision is not None
    assert "harm" not in decision.causes


def test_a_small_loss_at_an_early_look_is_not_taken_for_harm() -> None:
    early = [*passes(1, 0, 1, tasks=5), *passes(1, 1, 1, tasks=15)]
    assert decide_trial([early], TrialDesign(0.05, 60, 1)) is None
    assert decide([*early, *passes(1, 0, 1, tasks=40)]).causes[0] == "harm"


def test_clear_gain_and_clear_loss_end_the_trial_early() -> None:
    assert decide(passes(0, 4, 0, tasks=20), planned=60).accepted
    assert decide(passes(4, 0, 4, tasks=20), planned=60).causes[0] == "harm"
    assert decide_trial([passes(1, 1, 1, tasks=20)], TrialDesign(0.05, 60, 4)) is None
    stopped = decide(passes(1, 1, 1, tasks=20), passes(1, 1, 1, tasks=20), planned=60)
    assert (stopped.looks, stopped.tasks, stopped.accepted) == (2, 40, False)


HARD = TrialDesign(0.05, 24, has_harm_check=True)


def hard_trial(draw: np.random.Generator, kept: float, attempts: int = 3) -> TrialDecision:
    """Nine of 24 tasks pass nearly always without the skill, the others seldom; with it the nine pass at a rate."""
    rates = np.array([[0.95, kept]] * 9 + [[0.05, 0.05]] * 15)
    looks = [TaskPasses(f"t{n:02}", *map(int, row)) for n, row in enumerate(draw.random((24, 2)) < rates)]
    decision = decide_trial([looks], HARD)
    assert decision is not None
    names = choose_harm_tasks(looks, decision, HARD)
    if not names:
        return decision
    again = draw.binomial(attempts, rates)
    tried = [TaskPasses(name, *map(int, again[int(name[1:])])) for name in names]
    return add_harm_check(decision, tried, attempts, HARD)[0]


def test_harm_check_finds_harm_among_hard_tasks_and_keeps_its_level() -> None:
    draw = np.random.default_rng(3)
    harmful, null = ([hard_trial(draw, kept).causes for _ in range(400)] for kept in (0.4, 0.95))
    assert np.mean([causes[0] == "harm" for causes in harmful]) > 0.75
    assert np.mean(["harm" in causes for causes in null]) <= 0.05
    assert {causes[-1] for causes in harmful + null} == {"no gain"}


def test_harm_check_is_made_only_where_it_can_tell() -> None:
    lost = [TaskPasses(f"t{n}", 1, int(n > 2)) for n in range(9)] + [TaskPasses(f"u{n}", 0, 0) for n in range(15)]
    decision = decide_trial([lost], HARD)
    assert decision is not None
    assert choose_harm_tasks(lost, decision, HARD) == tuple(f"t{n}" for n in range(9))
    assert choose_harm_tasks(lost, decision, HARD._replace(has_harm_check=False)) == ()
    assert choose_harm_tasks(lost[4:], decision, HARD) == ()  # five passing tasks cannot reach the level
    assert choose_harm_tasks([TaskPasses("t", 1, 1)] * 9, decision, HARD) == ()  # nothing was lost
    assert choose_harm_tasks(lost, decision._replace(causes=("harm",)), HARD) == ()


def test_gain_in_weight_alone_is_no_gain() -> None:
    """The test weighs tasks; a version that wins it but lowers the pass rate is refused."""
    extreme = [TaskPasses(f"a{n}", 0, 1) for n in range(40)]
    middle = [TaskPasses(f"b{n}", 3, 1) for n in range(21)]
    decision = decide([*extreme, *middle])
    assert not decision.accepted


def test_doubted_pass_counts_against_the_skill_in_both_arms(task: LoadedTask) -> None:
    name = task.task.id
    doubted = TaskCount("a", None, name, passed=0, failed=0, unknown=0, error=0, doubtful=2)
    (passes,) = passes_of({"none": {name: doubted}, "skill": {name: doubted}}, [task], 2)
    assert (passes.none, passes.skill) == (2, 0)
