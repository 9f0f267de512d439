"""`assay skills`: skills with provenance, from distillation to retirement."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.errors import StoreError, UserError
from assay.learning.skills.trial_config import TrialConfig
from assay.limited_file import parse_file

from .options import takes_config
from .output import emit_json, plain, quantity, say
from .plain_typer import plain_typer
from .shared import JsonOption, StoreOption, settings_with
from .skills_distil import claim_row, distil, mine
from .skills_usage import grounding, route, tiers, usage, usage_reason
from .tables import print_rows

if TYPE_CHECKING:
    from assay.learning.skills.folder import SkillFolder
    from assay.learning.skills.library import SkillLibrary, SkillSummary
    from assay.learning.skills.records import ArmResult, HarmCheck, SkillEntry

app = plain_typer(help="Keeps Agent Skills with the evidence that they rest on.")
NameArgument = Annotated[str, typer.Argument(help="Name of a skill in the store.", show_default=False)]
_JSON_BYTES = 1 << 20


@app.callback()
def _root() -> None:
    """Keeps Agent Skills with the evidence that they rest on."""


@app.command("ls")
def ls(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Lists the skills of the store: state, rules, cited attempts, trials and refused edits.

    Examples:

      assay skills ls

      assay skills ls --json
    """
    library = _library(store)
    rows = [_summary_row(library.summary(name)) for name in library.names()]
    if as_json:
        emit_json(rows)
    else:
        print_rows([{k: str(v) for k, v in row.items()} for row in rows], empty="no skills: see assay skills distil")


@app.command("show")
def show(name: NameArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Shows a skill: its text, what each line rests on, and its ledger.

    Examples:

      assay skills show adventure-guide

      assay skills show adventure-guide --json
    """
    library = _library(store)
    summary = library.summary(name)
    skill = library.load(name, summary.version)
    if as_json:
        emit_json({"skill": summary._asdict(), "text": skill.text, "files": sorted(skill.files)})
        return
    typer.echo(plain(skill.text).rstrip())
    say(f"\n{name}: {summary.state}, version {summary.version}")
    print_rows([claim_row(one) for one in summary.claims], empty="no line cites evidence")
    print_rows([_entry_row(one) for one in summary.entries])


@app.command("validate")
def validate(
    skill: Annotated[str, typer.Argument(help="A skill folder, or the name of a skill.", show_default=False)],
    tasks: Annotated[
        list[str] | None, typer.Option("--tasks", help="Tasks whose texts the skill may not hold; repeatable.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Checks a skill as the reference checker does; a skill of the store also for evidence that does not resolve.

    With --tasks it is scanned for names of tests, assertions, literals, lines of solutions, ids and instructions of
    these tasks. Exits with 1 where something is found.

    Examples:

      assay skills validate ./my-skill

      assay skills validate adventure-guide

      assay skills validate ./my-skill --tasks tasks/
    """
    from assay.learning.skills.evidence import unresolved_claims
    from assay.learning.skills.folder import validate_skill
    from assay.learning.skills.leaks import scan_leaks, secrets_of_task
    from assay.tasks import find_tasks

    folder, summary = _find_skill(skill, _library(store))
    found = {
        "format": list(validate_skill(folder)),
        "evidence": unresolved_claims(summary.claims, settings_with(store)) if summary else [],
        "leaks": [str(one) for one in scan_leaks(folder, [secrets_of_task(t) for t in find_tasks(tuple(tasks or ()))])]
        if tasks
        else [],
    }
    count = sum(map(len, found.values()))
    if as_json:
        emit_json({"skill": folder.name, "version": folder.digest, "valid": not count, **found})
    else:
        print_rows([{"kind": kind, "problem": one} for kind, ones in found.items() for one in ones], empty="valid")
        say(f"{skill}: {quantity(count, 'problem')}")
    if count:
        raise typer.Exit(1)


@app.command("import")
def import_(
    folders: Annotated[list[Path], typer.Argument(help="Skill folders.", show_default=False)],
    reason: Annotated[str, typer.Option("--reason", help="Why they are imported.")] = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Imports skill folders as candidates; what the reference checker objects to is recorded with them.

    Nothing in a folder is executed. Links and special files are refused. An import makes no claims: a skill from
    outside rests on no evidence of this store until a trial measured it.

    Examples:

      assay skills import ./my-skill

      assay skills import skills/* --reason "published release"
    """
    from assay.learning.skills.folder import read_skill

    library = _library(store)
    skills = [(folder.name, read_skill(folder)) for folder in folders]  # all are read before one is added
    entries = [(skill.name, library.add(skill, "import", reason=reason, source=name)) for name, skill in skills]
    if as_json:
        emit_json([{"skill": name, "version": one.version, "problems": one.problems} for name, one in entries])
        return
    print_rows([{"skill": name, "problems": "; ".join(one.problems) or "valid"} for name, one in entries])
    say(f"{quantity(len(entries), 'skill')} imported; next: assay skills trial NAME --tasks TASKS")


app.command("distil")(distil)
app.command("mine")(mine)
app.command("usage")(usage)
app.command("route")(route)
app.command("tiers")(tiers)
app.command("grounding")(grounding)


@app.command("edit")
def edit(
    name: NameArgument,
    proposal: Annotated[Path, typer.Argument(help="JSON file: reason, edits, evidence.", show_default=False)],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Makes a candidate by bounded edits of lines: add, replace, delete; a trial then accepts or refuses it.

    The file holds {"reason": "...", "edits": [{"op": "replace", "line": "...", "text": "..."}]}. Edits that a trial
    refused are refused again without one.

    Examples:

      assay skills edit adventure-guide shorter.json

      assay skills edit adventure-guide shorter.json --json
    """
    import msgspec

    from assay.learning.skills.records import EditProposal

    decode = msgspec.json.Decoder(EditProposal).decode
    hint = "see assay skills edit --help"
    found = parse_file(proposal, decode, holding="a proposal of edits", limit=_JSON_BYTES, hint=hint)
    entry = _library(store).propose(name, found)
    if as_json:
        emit_json({"skill": name, "version": entry.version, "base": entry.base, "problems": entry.problems})
    else:
        typer.echo(plain(f"{name}: candidate {entry.version}, {quantity(len(found.edits), 'edit')} of {entry.base}"))


@app.command("trial")
@takes_config(TrialConfig, arguments=("skill",))
def trial(config: TrialConfig, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Tries the newest version on held-out tasks and releases or refuses it.

    The arms (no skill, the skill, a placebo of equal length) are ordinary runs on the same tasks with the same seeds.
    The skill must win against each control and against both together by exact permutation tests on tasks, at one
    of --looks looks; the stated error rates hold over all looks. It is refused unrun if it is invalid or holds
    texts of the tasks; the tasks must be ones that its evidence has not seen. Each decision spends a part of the tasks'
    error budget (assay skills holdouts); at zero they are refused. An interrupted trial is continued by the same
    command. Exits with 1 where the skill is refused.

    Examples:

      assay skills trial adventure-guide --tasks family:adventure,n=200,seed=77

      assay skills trial adventure-guide --tasks family:adventure,n=100,seed=78 --attempts 4 --alpha 0.02
    """
    from assay.learning.skills.trial import run_trial

    entry = asyncio.run(run_trial(config, settings_with(store), say))
    found = entry.trial
    if found is None:
        raise StoreError(f"the ledger of {config.skill} holds no trial: try it again")
    if as_json:
        emit_json({"skill": config.skill, "version": entry.version, "trial": found})
    else:
        typer.echo(plain(f"{config.skill} is {'released' if found.accepted else 'refused'} ({entry.version})"))
        for reason in found.reasons:
            typer.echo(plain(f"  {reason}"))
        print_rows([_arm_row(one) for one in found.arms], empty="nothing was run")
        if found.arms:
            tried = f"{found.arms[0].tasks} of {quantity(found.planned, 'task')}"
            say(f"{quantity(found.looks, 'look')}, {tried}; {quantity(found.unjudged, 'unjudged attempt')}")
        if found.harm_check is not None:
            say(_harm_check_line(found.harm_check))
        if found.earlier_uses:
            earlier = quantity(found.earlier_uses, "earlier decision")
            say(f"{earlier} used some of these tasks: the rates are not clean estimates")
    if not found.accepted:
        raise typer.Exit(1)


def _harm_check_line(check: HarmCheck) -> str:
    total = check.tasks * check.attempts
    tasks = f"{quantity(check.tasks, 'task')} that passed without the skill, {quantity(check.attempts, 'attempt')} each"
    passed = f"{check.passed[0]} of {total} without, {check.passed[1]} of {total} with"
    return f"harm check: {tasks}: {passed} (one-sided p {check.p_harm:.3f} for a loss, level {check.level:g})"


@app.command("holdouts")
def holdouts(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Lists which trial used which held-out tasks, and what is left of their error budget.

    Examples:

      assay skills holdouts

      assay skills holdouts --json
    """
    from assay.learning.skills.holdouts import HoldoutLedger

    uses = HoldoutLedger(settings_with(store).store).uses()
    if as_json:
        emit_json(uses)
        return
    rows = [
        {"holdout": one.holdout[7:19], "tasks": str(len(one.tasks)), "skill": one.skill, "version": one.version[7:19],
         "spent": f"{one.alpha:.4g}", "left": f"{one.left:.4g}"}
        for one in uses
    ]  # fmt: skip
    print_rows(rows, empty="no holdout was used")


@app.command("retire")
def retire(
    name: NameArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why it is withdrawn.")] = "",
    by_usage: Annotated[
        list[str] | None, typer.Option("--by-usage", help="Run that shows that it is harmful; repeatable.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Withdraws a skill: it is not exported any more; its versions, evidence and ledger stay.

    With --by-usage it is withdrawn only if these runs show a loss: the 95% interval of the difference between attempts
    with the released version and without a skill lies below 0 (assay skills usage).

    Examples:

      assay skills retire adventure-guide --reason "harmful with two locks"

      assay skills retire adventure-guide --by-usage second --by-usage third
    """
    if by_usage:
        reason = "; ".join(filter(None, (reason.strip(), usage_reason(name, by_usage, store))))
    if not reason.strip():
        raise UserError("no reason: give one with --reason, it is recorded in the skill's ledger")
    entry = _library(store).retire(name, reason)
    if as_json:
        emit_json({"skill": name, "version": entry.version, "state": "retired"})
    else:
        typer.echo(plain(f"{name} is retired: {reason}"))


@app.command("export")
def export(
    name: NameArgument,
    folder: Annotated[Path, typer.Argument(help="New folder to write; its last part must be NAME.")],
    untried: Annotated[bool, typer.Option("--untried", help="Export the newest version, tried or not.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Writes the released version as an Agent Skills folder, which harnesses load from where they look.

    The evidence stays in the store: a skill folder names no attempt and no task.

    Examples:

      assay skills export adventure-guide .agents/skills/adventure-guide

      assay skills export adventure-guide ./adventure-guide --untried
    """
    from assay.learning.skills.folder import validate_skill, write_skill

    library = _library(store)
    summary = library.summary(name)
    version = summary.version if untried else summary.released
    if version is None or summary.state == "retired":
        raise UserError(
            f"skill {name!r} has no released version (it is {summary.state}): try it with `assay skills trial`, or "
            "take the newest version with --untried"
        )
    skill = library.load(name, version)
    problems = validate_skill(skill)
    if problems:
        raise UserError(f"skill {name!r} is not valid, so harnesses may not load it: {'; '.join(problems)}")
    if folder.name != name:
        raise UserError(f"{folder} is not called {name!r}: a skill's folder has the skill's name; end the path with it")
    write_skill(skill, folder)
    if as_json:
        emit_json({"skill": name, "version": version, "folder": str(folder)})
    else:
        typer.echo(plain(f"{folder}: {name}, {quantity(len(skill.files), 'file')}"))


def _library(store: Path | None) -> SkillLibrary:
    from assay.learning.skills.library import SkillLibrary

    return SkillLibrary(settings_with(store).store)


def _find_skill(given: str, library: SkillLibrary) -> tuple[SkillFolder, SkillSummary | None]:
    from assay.learning.skills.folder import read_skill

    if given in library.names():
        summary = library.summary(given)
        return library.load(given, summary.version), summary
    if not Path(given).exists():
        known = ", ".join(library.names()) or "none"
        raise UserError(f"{given!r} is neither a folder nor a skill in {library.folder}; skills there: {known}")
    return read_skill(Path(given)), None


def _summary_row(one: SkillSummary) -> dict[str, Any]:
    attempts = {ref.chain for claim in one.claims for ref in claim.evidence}
    return {
        "skill": one.name,
        "state": one.state,
        "tier": one.tier,
        "version": one.version[7:19],
        "claims": len(one.claims),
        "attempts cited": len(attempts),
        "trials": sum(entry.kind == "trial" for entry in one.entries),
        "refused edits": len(one.rejected),
    }


def _entry_row(one: SkillEntry) -> dict[str, str]:
    decided = "" if one.trial is None else ("accepted: " if one.trial.accepted else "refused: ")
    return {"entry": one.kind, "version": one.version[7:19], "reason": f"{decided}{one.reason}"[:120] or "-"}


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _arm_row(one: ArmResult) -> dict[str, str]:
    return {
        "arm": one.name,
        "tasks": str(one.tasks),
        "passed": f"{one.passed} of {one.judged}",
        "rate": _cell(one.rate, ".3f"),
        "steps": _cell(one.steps, ".1f"),
        "tokens": _cell(one.tokens, ",.0f"),
        "cost": _cell(one.cost_usd, ".4f"),
        "run": f"{one.runs[0]} ..." if len(one.runs) > 1 else one.runs[0],
    }
