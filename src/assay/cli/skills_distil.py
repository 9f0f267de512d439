"""`assay skills distil` and `assay skills mine`: skills from verified attempts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.learning.skills.mining_config import MiningConfig

from .options import takes_config
from .output import emit_json, quantity, say
from .shared import JsonOption, StoreOption, pick_run, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.learning.skills.composites import ProvenTool
    from assay.learning.skills.model_distil import ModelSkill
    from assay.learning.skills.records import Claim
    from assay.settings import Settings


def distil(
    runs: Annotated[list[str], typer.Argument(help="Runs of judged attempts.", show_default=False)],
    name: Annotated[str, typer.Option("--name", help="Name of the skill; an existing one gets a new version.")],
    model: Annotated[
        str | None,
        typer.Option("--model", help="Model that proposes the rules, as for assay run; default: by counting."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Distils a skill from verified attempts: acts that passing attempts chose more often than chance (at tasks of the
    family adventure), and how failed calls were mended at three tasks or more.

    Failing attempts are the contrast; doubted, unjudged and broken ones are left out. Every rule cites the steps that
    it counts. Where the runs' agent followed a version of the skill, that version is refined. Continuations of failed
    attempts (`assay replay --from-each-prefix`) tell which step would have passed in place of a failing one.

    With --model a model is shown up to eight attempts of any kind of task and proposes rules. A rule is kept only if
    its citations resolve: each quote stands in the step that it names, one of them of a verified pass, and the rule
    holds no text of the tasks, their tests or their solutions.

    Examples:

      assay run family:adventure,n=500 --agent rules-world --run first

      assay skills distil first --name adventure-guide

      assay run family:adventure,n=500,seed=1 --agent rules-world --agent-option skill=guide --run second

      assay skills distil first --name by-model --model openai:NAME
    """
    settings = settings_with(store)
    named = [pick_run(run, settings) for run in runs]
    if model is not None:
        _distil_by_model(name, named, model, settings, as_json=as_json)
        return
    from assay.learning.skills.evidence import distil_from_runs
    from assay.learning.skills.library import SkillLibrary

    found, left_out = distil_from_runs(name, named, settings)
    entry = SkillLibrary(settings.store).add(
        found.skill,
        "distil",
        reason=f"{found.passing} passing and {found.failing} failing attempts",
        source=", ".join(runs),
        claims=found.claims,
    )
    if as_json:
        emit_json({"skill": name, "version": entry.version, "passing": found.passing, "failing": found.failing,
                   "left_out": left_out, "claims": entry.claims, "problems": entry.problems})  # fmt: skip
        return
    print_rows([claim_row(one) for one in entry.claims])
    say(
        f"{name}: {quantity(len(entry.claims), 'rule')} from {found.passing} passing and {found.failing} failing "
        f"attempts ({left_out} left out); next: assay skills trial {name} --tasks TASKS"
    )


def _distil_by_model(name: str, runs: list[str], model: str, settings: Settings, *, as_json: bool) -> None:
    from assay.learning.skills.library import SkillLibrary
    from assay.learning.skills.model_distil import keep_exchange
    from assay.records import digest_bytes

    found = asyncio.run(_ask_model(name, runs, model, settings))
    library = SkillLibrary(settings.store)
    exchange = digest_bytes(found.exchange)
    entry = library.add(
        found.skill,
        "distil",
        reason=f"{model}, {found.passing} passing and {found.failing} failing attempts, exchange {exchange}",
        source=", ".join(runs),
        claims=found.claims,
    )
    keep_exchange(library.folder / name / "exchanges", found.exchange)
    if as_json:
        emit_json({"skill": name, "version": entry.version, "passing": found.passing, "failing": found.failing,
                   "left_out": found.left_out, "claims": entry.claims, "problems": entry.problems,
                   "refused": [one._asdict() for one in found.refused], "exchange": exchange})  # fmt: skip
        return
    print_rows([claim_row(one) for one in entry.claims])
    print_rows([{"refused": one.text[:80], "reason": one.reason} for one in found.refused], empty="no rule was refused")
    say(
        f"{name}: {quantity(len(entry.claims), 'rule')} of {len(entry.claims) + len(found.refused)} by {model}, from "
        f"{found.passing} passing and {found.failing} failing attempts ({found.left_out} left out)"
    )


async def _ask_model(name: str, runs: list[str], model: str, settings: Settings) -> ModelSkill:
    from assay.learning.skills.model_distil import distil_by_model
    from assay.rollout.attempt.models import open_model

    backend = open_model(model, settings)
    try:
        return await distil_by_model(name, runs, backend, settings)
    finally:
        await backend.close()


@takes_config(MiningConfig, arguments=("runs",))
def mine(config: MiningConfig, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Mines composite tools: sequences of linked calls that recur in passing attempts, as one call.

    Each is executed again before it is offered: attempts that hold it are repeated in fresh environments with the calls
    made by the tool, and must pass their checks and end in the recorded state. The executions are an ordinary run. The
    skill's folder holds the declarations; agents load them with their option `skill`.

    Examples:

      assay skills mine first --name service-tools

      assay skills mine first second --name service-tools --least-tasks 5 --json
    """
    from assay.learning.skills.composites import mine_skill
    from assay.learning.skills.library import SkillLibrary
    from assay.rollout.progress import Tally

    settings = settings_with(store)
    found = asyncio.run(mine_skill(config, settings, Tally()))
    entry = SkillLibrary(settings.store).add(
        found.skill,
        "distil",
        reason=f"composite tools of {found.passing} passing and {found.failing} failing attempts",
        source=", ".join(config.runs),
        claims=found.claims,
    )
    rows = [_tool_row(one) for one in found.tools]
    if as_json:
        emit_json({"skill": config.name, "version": entry.version, "passing": found.passing, "failing": found.failing,
                   "left_out": found.left_out, "tools": rows, "problems": entry.problems})  # fmt: skip
        return
    print_rows([{key: str(value) for key, value in row.items()} for row in rows])
    offered = sum(one.is_offered for one in found.tools)
    say(
        f"{config.name}: {quantity(offered, 'composite tool')} of {len(found.tools)} mined, from {found.passing} "
        f"passing and {found.failing} failing attempts ({found.left_out} left out)"
    )


def claim_row(one: Claim) -> dict[str, str]:
    """Returns a claim as a row of a table."""
    steps = sum(len(ref.steps) for ref in one.evidence)
    first = next((ref for ref in one.evidence if ref.steps), None)
    return {
        "claim": one.text.removeprefix("- ").partition(" (")[0][:80],
        "steps": str(steps),
        "attempts": str(len({ref.chain for ref in one.evidence})),
        "in failing": "-" if one.failing_factor is None else f"{one.failing_factor:.2f}",
        "for example": "-" if first is None else f"{first.run}:{first.attempt} step {first.steps[0]}",
    }


def _tool_row(one: ProvenTool) -> dict[str, Any]:
    return {
        "tool": one.mined.tool.name,
        "calls": len(one.mined.tool.calls),
        "arguments": ", ".join(one.mined.tool.parameters) or "-",
        "times": len(one.mined.occurrences),
        "tasks": one.mined.tasks,
        "executed": len(one.executions),
        "offered": "yes" if one.is_offered else f"no: {one.problem}",
    }
