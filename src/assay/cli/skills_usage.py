"""`assay skills usage` and `assay skills route`: what runs say of a skill, and which skill fits a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.errors import UserError

from .output import emit_json, quantity, say
from .shared import JsonOption, StoreOption, pick_run, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.learning.skills.tiers import SkillTierReport
    from assay.learning.skills.usage import VersionUsage


def usage(
    name: Annotated[str, typer.Argument(help="Name of a skill in the store.", show_default=False)],
    runs: Annotated[list[str] | None, typer.Argument(help="Runs; default: all of the store.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Counts the attempts that loaded each version of a skill, beside attempts at the same tasks without a skill.

    The difference is over tasks that the same agent with the same model tried both ways, with a 95% interval; below 10
    such tasks none is stated. `assay skills retire --by-usage` withdraws a skill whose whole interval lies below 0.

    Examples:

      assay skills usage adventure-guide

      assay skills usage adventure-guide second third --json
    """
    found = count_versions(name, runs or [], store)
    if as_json:
        emit_json(found)
    else:
        print_rows([_row(one) for one in found], empty=f"no attempt of these runs loaded a version of {name}")


def count_versions(name: str, runs: list[str], store: Path | None) -> tuple[VersionUsage, ...]:
    """Returns the counters of a skill over some runs, or over all of the store."""
    from assay.learning.skills.usage import count_usage
    from assay.store import list_runs

    settings = settings_with(store)
    return count_usage(name, [pick_run(run, settings) for run in runs] or list_runs(settings.store), settings)


def usage_reason(name: str, runs: list[str], store: Path | None) -> str:
    """Returns why the runs say that the released version is harmful. Raises `UserError` if they do not."""
    from assay.learning.skills.library import SkillLibrary

    released = SkillLibrary(settings_with(store).store).summary(name).released
    if released is None:
        raise UserError(f"skill {name!r} has no released version: retire it with --reason")
    one = next((one for one in count_versions(name, runs, store) if one.version == released), None)
    if one is None or not one.is_harmful:
        shown = "no attempt loaded it" if one is None else f"its difference is {_difference(one)}"
        raise UserError(
            f"these runs do not show that the released version of {name!r} is harmful: {shown}; it keeps its state"
        )
    return f"harmful in use: {_difference(one)} over {one.tasks} tasks, {one.passed} of {one.judged} passed with it"


def grounding(
    runs: Annotated[list[str], typer.Argument(help="Runs.", show_default=False)],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Shows how far the steps of attempts rest on what the environment showed, by an index after SPARK's.

    A low index says that an agent repeats its plan, sees the same again, and acts on words that nothing showed; steps
    below -2 are counted. The area says how often a passing attempt has a higher mean than a failing one. The agent loop
    acts on it with its option grounding.

    Examples:

      assay skills grounding first

      assay skills grounding first second --json
    """
    from assay.learning.skills.grounding_report import report_grounding

    settings = settings_with(store)
    found = report_grounding([pick_run(run, settings) for run in runs], settings)
    if as_json:
        emit_json(found)
        return
    print_rows([
        {"attempt": f"{one.run}:{one.attempt}", "outcome": one.outcome, "steps": str(one.grounding.steps),
         "mean index": "-" if one.grounding.mean is None else f"{one.grounding.mean:+.2f}",
         "ungrounded steps": str(one.grounding.low)}
        for one in found.attempts
    ])  # fmt: skip
    area = "unknown" if found.area is None else f"{found.area:.2f}"
    say(f"{found.passing} passing, {found.failing} failing attempts; area {area} (0.50 tells nothing)")


def route(
    tasks: Annotated[list[str], typer.Argument(help="Task folders or families.", show_default=False)],
    most: Annotated[int, typer.Option("--most", min=1, help="Most skills of a task.")] = 3,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Chooses released skills for tasks by their words (BM25 over names and descriptions).

    A skill is chosen only if its description shares at least three telling words with the instruction; otherwise none
    is. Skills that runs proved come first, demoted ones are left out (assay skills tiers).

    Examples:

      assay skills route tasks/

      assay skills route family:adventure,n=3,seed=7 --most 1 --json
    """
    from assay.learning.curation.curate import instruction_text
    from assay.learning.skills.library import SkillLibrary
    from assay.learning.skills.routing import offered_tiers, released_descriptions, route_task
    from assay.tasks import find_tasks

    library = SkillLibrary(settings_with(store).store)
    descriptions, tiers = released_descriptions(library), offered_tiers(library)
    found = [
        (one.task.id, route_task(instruction_text(one.task), descriptions, most=most, tiers=tiers))
        for one in find_tasks(tuple(tasks))
    ]
    if as_json:
        emit_json([{"task": task, "skills": [one._asdict() for one in chosen]} for task, chosen in found])
        return
    print_rows([
        {"task": task, "skills": ", ".join(one.name for one in chosen) or "-",
         "words": ", ".join(chosen[0].shared) if chosen else "-"}
        for task, chosen in found
    ])  # fmt: skip
    routed = sum(bool(chosen) for _, chosen in found)
    say(f"{routed} of {quantity(len(found), 'task')} have a skill; {quantity(len(descriptions), 'released skill')}")


def tiers(
    runs: Annotated[list[str] | None, typer.Argument(help="Runs; default: all of the store.")] = None,
    record: Annotated[bool, typer.Option("--record", help="Write the moves to the skills' ledgers.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sorts skills into tiers by their effect in runs: proven, new, demoted; candidates were never released.

    A skill is promoted where the 95% interval of its effect lies above 0 (assay skills usage), demoted where it lies
    below 0, and new again where its mean contradicts its tier. Proven skills are offered first and demoted ones not at
    all (assay skills route). Each look is an ordinary interval: a harmless skill is demoted by chance in 2.5% of them.

    Examples:

      assay skills tiers

      assay skills tiers without with-guide --record
    """
    from assay.learning.skills.tiers import ORDER, move_skills
    from assay.store import list_runs

    settings = settings_with(store)
    names = [pick_run(run, settings) for run in runs or []] or list_runs(settings.store)
    found = sorted(move_skills(names, settings, record=record), key=lambda one: (ORDER[one.tier], one.skill))
    if as_json:
        emit_json(found)
        return
    print_rows([_tier_row(one) for one in found], empty="no skills: see assay skills distil")
    moved = sum(one.tier != one.before for one in found)
    if moved:
        say(f"{quantity(moved, 'move')} {'recorded' if record else 'to record with --record'}")


def _tier_row(one: SkillTierReport) -> dict[str, str]:
    usage = one.usage
    return {
        "skill": one.skill,
        "tier": one.tier if one.tier == one.before else f"{one.tier} (was {one.before})",
        "loaded": "0" if usage is None else str(usage.loaded),
        "tasks tried both ways": "0" if usage is None else str(usage.tasks),
        "difference": "-" if usage is None else _difference(usage),
        "promoted, demoted": f"{one.promotions}, {one.demotions}",
    }


def _row(one: VersionUsage) -> dict[str, Any]:
    return {
        "version": one.version[7:19],
        "loaded": str(one.loaded),
        "passed": f"{one.passed} of {one.judged}",
        "tasks tried both ways": str(one.tasks),
        "difference": _difference(one),
    }


def _difference(one: VersionUsage) -> str:
    if one.difference is None or one.low is None or one.high is None:
        return "-"
    return f"{one.difference:+.3f} [{one.low:+.3f}, {one.high:+.3f}]"
