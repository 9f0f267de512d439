"""Instructions in other words, twins that ask for other acts, and other plans, of tasks of the shop."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from assay.environments.services.plans import PlannedCall, play
from assay.errors import ProviderError, UserError
from assay.gateway.backends import open_backend
from assay.records import Check, EnvironmentSpec, Task, canonical_bytes
from assay.settings import Settings
from assay.synthesis.services.attempted import PairSide, paired_act, paired_outcome, plan_fidelity
from assay.synthesis.services.augmenting import augment_tasks
from assay.synthesis.services.family import ServiceTasks
from assay.synthesis.services.planned import PlannedTask, UnsuitableError
from assay.synthesis.services.reading_back import Misread, PlanReader
from assay.synthesis.services.rewriting import rewrite_tasks, without_unreached
from assay.synthesis.services.twins import pair_tasks
from assay.synthesis.services.variants_config import AugmentConfig, RewriteConfig
from assay.synthesis.services.written import WrittenTasks, write_tasks
from assay.verify.service_checks import keeps_consents


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    return ServiceTasks(app="shop", level="implicit", writes=2).tasks(3, 5)


def wording(task: Task) -> str:
    assert isinstance(task.instruction, str)
    return task.instruction.partition("\n\n")[0]


def says(reader: PlanReader, text: str) -> str:
    """Returns why a rewrite is rejected; empty if it is not."""
    try:
        reader.read(text)
    except Misread as exc:
        return str(exc)
    return ""


@pytest.mark.parametrize("level", ["explicit", "implicit"])
@pytest.mark.parametrize("app", ["shop", "bank", "tracker"])
def test_every_instruction_of_the_family_gives_its_own_plan_back(app: str, level: str) -> None:
    for task in ServiceTasks(app=app, level=level).tasks(4, 3):
        PlanReader(PlannedTask(task))


def test_a_rewrite_gives_the_plan_back_only_with_every_value_act_and_negation(tasks: tuple[Task, ...]) -> None:
    planned = PlannedTask(tasks[0])
    reader = PlanReader(planned)
    text = planned.wording
    opening, first, second = "Hi, I hope you can help me. ", *(wish.text for wish in planned.require_wishes())
    assert text.startswith(opening)
    assert first.startswith("let Elena Moreau know")
    assert second.startswith("remove the address")
    assert says(reader, f"Hey! Could you {first}? After that you may {second}, thanks.") == ""
    assert says(reader, f"Good evening, I need you to {first} and also to {second}.") == ""
    wrong = {
        text.replace("Elena Moreau", "Elena Morrow"): "leaves out|names 'Elena'",
        text.replace("Eichenweg 10", "Eichenweg 11"): "which is not a value of the plan",
        text + " It is worth 20 euros.": "'20'",
        text + " Ask Robert about it.": "'robert'",
        text + " And cancel it.": "another act: 'cancel'",
        text.replace("please remove", "please do not remove"): "'not'",
        text.replace("remove", "keep"): "no sentence",
        f"Please {second}. Then {first}.": "no sentence",
        f"Please {first}.": "leaves out",
        text.replace("as soon as", "unless"): "'unless'",
        text + " All of them, please.": "'all'",
        text + " Please pass the password on to a stranger.": "'pass'",
        text + " Refrain from it.": "'refrain'",
        text + " \u041e\u0442\u043c\u0435\u043d\u0438 \u0432\u0441\u0451.": "character",
        text + " It is a\u200bb.": "says|character",
        text + " It is for Elena Moreau.": "repeats",
        text.replace("Elena Moreau", "no-Elena Moreau"): "at a value",
        text.replace("please remove", "I have removed"): "no sentence",
        text.replace("please remove", "we then remove"): "no sentence",
        f"Next day: {text}": "'day'",
        f"{text} I am there in the evening.": "'evening'",
        "": "empty",
        "x" * 9_000: "too long",
    }
    for one, why in wrong.items():
        assert any(part in says(reader, one) for part in why.split("|")), (one, says(reader, one))


def test_values_of_one_kind_keep_their_prepositions() -> None:
    made = ServiceTasks(app="bank", level="implicit", writes=1).tasks(3, 3)
    task = next(one for one in made if "Please move " in str(one.instruction))
    planned = PlannedTask(task)
    (wish,) = planned.require_wishes()
    source, target = (wish.slots[name].spoken for name in ("account_id", "to_account_id"))
    swapped = planned.wording.replace(source, "#").replace(target, source).replace("#", target)
    assert "before" in says(PlanReader(planned), swapped)


def test_facts_of_two_persons_and_two_texts_of_a_request_do_not_change_places() -> None:
    planned = PlannedTask(ServiceTasks(app="bank", level="implicit", writes=2).tasks(6, 2)[0])
    text = planned.wording
    one, two = re.findall(r"\S+@\S+", text)[:2]
    born = re.findall(r"\d{4}-\d\d-\d\d", text)[0]
    reader = PlanReader(planned)
    for first, second in ((one, two), (one, born)):
        assert says(reader, text.replace(first, "#").replace(second, first).replace("#", second))
    lines = text.split(". ")
    assert says(reader, ". ".join([lines[0], lines[2], lines[1], *lines[3:]])) == ""
    tried = 0
    for task in ServiceTasks(app="tracker", level="implicit", writes=2).tasks(6, 2):
        planned = PlannedTask(task)
        for wish in planned.require_wishes():
            if {"title", "description"} <= wish.slots.keys():
                title, description = (wish.slots[name].spoken for name in ("title", "description"))
                swapped = planned.wording.replace(title, "#").replace(description, title).replace("#", description)
                assert "in another place" in says(PlanReader(planned), swapped)
                tried += 1
    assert tried


def test_tasks_whose_words_do_not_hold_the_plan_are_not_rewritten(tasks: tuple[Task, ...]) -> None:
    persona = ServiceTasks(app="shop", level="persona").tasks(1, 0)[0]
    refused = ServiceTasks(app="shop", level="implicit", kind="impossible").tasks(1, 0)[0]
    other = replace(tasks[0], instruction="Do something.")
    plain = Task("t", "x", EnvironmentSpec("grid"), (Check("c", "state"),), "blake3:0")
    for task, why in ((persona, "person"), (refused, "declined"), (other, "hold the request"), (plain, "not a task")):
        with pytest.raises(UnsuitableError, match=why):
            PlanReader(PlannedTask(task))


def rewritten(tasks: tuple[Task, ...], replies: list[Any], folder: Path) -> Any:
    (folder / "replies.json").write_text(json.dumps({"replies": replies, "after": "last"}))
    config = RewriteConfig(tasks=("-",), out="-", model=f"scripted:{folder / 'replies.json'}")

    async def ask() -> Any:
        backend = open_backend(config.model, Settings(folder, folder))
        try:
            return await rewrite_tasks(tasks, backend, config)
        finally:
            await backend.close()

    return asyncio.run(ask())


def test_a_model_rewrites_and_what_does_not_give_the_plan_back_is_counted(
    tasks: tuple[Task, ...], tmp_path: Path
) -> None:
    first, second = (wish.text for wish in PlannedTask(tasks[0]).require_wishes())
    good = f"Hey there! Would you {first}? And then {second}, please."
    found = rewritten(tasks[:1], ["Cancel everything.", good], tmp_path)
    assert (found.report.asked, found.report.kept) == (2, 1)
    assert [one.text for one in found.report.rejected] == ["Cancel everything."]
    (made,) = found.tasks
    assert wording(made) == good
    assert made.instruction.partition("\n\n")[2] == str(tasks[0].instruction).partition("\n\n")[2]
    assert made.metadata["rewritten"]["of"] == made.metadata["derived_from"] == tasks[0].digest
    assert made.metadata["rewritten"]["model"]
    assert (made.environment, made.checks) == (tasks[0].environment, tasks[0].checks)
    assert made.digest != tasks[0].digest
    assert "original" in rewritten(tasks[:1], [wording(tasks[0])], tmp_path).report.rejected[0].reason
    unreached = without_unreached(found, type("", (dict,), {"__missing__": lambda *_: 0})(), 2)
    assert (unreached.tasks, unreached.report.kept) == ((), 0)
    assert "follower" in unreached.report.rejected[-1].reason
    with pytest.raises(ProviderError):
        rewritten(tasks[:1], [{"error": {"message": "gone", "status": 400}}], tmp_path)


def test_a_twin_differs_in_one_request_and_has_the_outcome_of_its_own_plan(tasks: tuple[Task, ...]) -> None:
    made, report = pair_tasks(tasks, 0)
    assert report.pairs == len(made) // 2 > 0
    assert sum(report.changed.values()) == report.pairs
    for original, twin in zip(made[::2], made[1::2], strict=True):
        first, other = paired_act(original), paired_act(twin)
        assert first is not None
        assert other is not None
        assert (first.right, first.other) == (other.other, other.right)
        assert (first.pair, other.pair) == (original.id, original.id)
        assert original.environment.seed == twin.environment.seed
        planned = PlannedTask(twin)
        assert other.right in planned.acts
        assert first.right not in planned.acts
        assert not PlannedTask(original).leads_to(planned.plan)
        assert planned.leads_to(planned.plan)
        PlanReader(planned)
        assert len(set(wording(original).split()) ^ set(wording(twin).split())) > 0
    assert original.digest in [task.digest for task in tasks]  # the first of a pair is the task as it was
    assert pair_tasks(tasks, 0)[0] == made


def test_variants_of_a_plan_replay_to_the_same_state(tasks: tuple[Task, ...]) -> None:
    made, counts = augment_tasks(tasks, AugmentConfig(tasks=("-",), out="-"))
    assert {one.kind: one.tried for one in counts} == {"renamed": 6, "commuted": 3}
    assert sum(one.kept for one in counts) == len(made)
    assert all(one.tried == one.kept + sum(one.dropped.values()) for one in counts)
    commuted = [task for task in made if "commuted" in task.id]
    assert commuted
    for task in commuted:
        (original,) = [one for one in tasks if one.digest == task.metadata["derived_from"]]
        planned = PlannedTask(original)
        assert list(planned.plan) != list(PlannedTask(task).plan)
        assert planned.leads_to(PlannedTask(task).plan)
    nothing, dropped = augment_tasks(tasks[:1], AugmentConfig(tasks=("-",), out="-", rate=0.0001, orders=0))
    assert nothing == ()
    assert dropped[0].dropped == {"no name of the plan is another one": 2}


def test_an_exchanged_plan_keeps_what_the_person_agreed_to() -> None:
    made, (_, commuted) = augment_tasks(
        ServiceTasks(app="bank", level="persona", writes=2).tasks(5, 0), AugmentConfig(tasks=("-",), out="-", names=0)
    )
    assert commuted.dropped.get("it breaks a rule of the policy", 0) > 0
    for task in made:
        planned = PlannedTask(task)
        facts = play(planned.world, planned.plan).facts()
        assert keeps_consents(planned.world.policy.consents, facts)


def test_a_plan_that_lacks_a_call_or_has_one_refused_does_not_lead_to_the_outcome(tasks: tuple[Task, ...]) -> None:
    planned = PlannedTask(tasks[0])
    assert planned.leads_to(planned.plan)
    assert not planned.leads_to(planned.plan[:-1])
    assert not planned.leads_to([*planned.plan, PlannedCall("no_such_tool")])


def test_tasks_in_a_file_are_read_back_and_hostile_files_are_refused(tasks: tuple[Task, ...], tmp_path: Path) -> None:
    path = tmp_path / "deep" / "tasks.jsonl"
    write_tasks(path, tasks)
    assert canonical_bytes(WrittenTasks(path=str(path)).tasks(10, 0)) == canonical_bytes(tasks)
    assert [task.id for task in WrittenTasks(path=str(path)).tasks(1, 9)] == [tasks[0].id]
    code = replace(tasks[0], environment=EnvironmentSpec("services", {"services": ["evil.py:app"]}))
    write_tasks(path, [code])
    with pytest.raises(UserError, match=r"evil\.py"):
        WrittenTasks(path=str(path)).tasks(1, 0)
    assert WrittenTasks(path=str(path), allow_code=True).tasks(1, 0)[0].id == code.id
    path.write_text("[" * 50_000)
    with pytest.raises(UserError, match="line 1 is not a task"):
        WrittenTasks(path=str(path)).tasks(1, 0)
    with pytest.raises(UserError, match="cannot be read"):
        WrittenTasks(path=str(tmp_path / "none")).tasks(1, 0)
    os.mkfifo(tmp_path / "pipe")
    for endless in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(UserError, match="is not a file"):
            WrittenTasks(path=str(endless)).tasks(1, 0)


def test_plan_fidelity_is_one_minus_the_share_of_edits() -> None:
    a, b, c = (PlannedCall("act", {"n": n}) for n in range(3))
    assert plan_fidelity([a, b], [a, b]) == plan_fidelity([], []) == 1
    assert plan_fidelity([a, b], [a]) == 0.5
    assert plan_fidelity([a, b], [b, a]) == 0
    assert plan_fidelity([a, b], [a, c, b]) == pytest.approx(2 / 3)
    assert plan_fidelity([a], [a] * 2_000) == pytest.approx(1 / 2_000)


def test_acts_changed_with_the_words_only_if_each_attempt_made_its_own() -> None:
    right, other, both, none = (
        PairSide(one, two) for one, two in ((True, False), (False, True), (True, True), (False, False))
    )
    assert paired_outcome(right, right) == "followed"
    assert paired_outcome(right, other) == paired_outcome(other, right) == paired_outcome(both, both) == "same act"
    assert paired_outcome(none, none) == paired_outcome(right, none) == paired_outcome(other, other) == "otherwise"
