"""Composite tools from stored runs: mined in verified attempts, executed again, and written as a skill.

A tool is offered only if executions of attempts that hold it, in fresh environments with the calls made by the tool,
pass their tasks' checks and end in the recorded states, and if its constants hold no text of the tasks; those attempts
and steps are the evidence of its line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from assay.agents.composites import COMPOSITES_FILE, CompositeTool, encode_composites, recorded_calls
from assay.errors import UserError
from assay.records import Trajectory
from assay.rollout.progress import Progress
from assay.rollout.rejudge.folded_replay import FoldedReplay, replay_folded
from assay.settings import Settings

from .evidence import ContrastAttempt, read_judged
from .folder import SKILL_FILE, SkillFolder
from .front_matter import render_front_matter
from .leaks import TaskSecrets, scan_leaks
from .mining_config import MiningConfig
from .records import Claim, EvidenceRef
from .sequences import CallAttempt, MinedTool, find_readers, mine_sequences


class ProvenTool(NamedTuple):
    """A mined tool with the executions that decided about it."""

    mined: MinedTool
    executions: tuple[FoldedReplay, ...]
    leaks: tuple[str, ...]
    """Texts of the tasks that its constants hold."""

    @property
    def problem(self) -> str:
        """Returns why it is not offered; empty for a tool that every execution supports and that holds no leak."""
        if self.leaks:
            return f"it holds a {self.leaks[0]}"
        if not self.executions:
            return "it was not executed"
        return next((one.problem for one in self.executions if one.problem is not None), "")

    @property
    def is_offered(self) -> bool:
        """Returns whether it is written to the skill."""
        return not self.problem


class MinedSkill(NamedTuple):
    """The result of mining."""

    skill: SkillFolder
    claims: tuple[Claim, ...]
    tools: tuple[ProvenTool, ...]
    """Offered and refused ones."""
    passing: int
    failing: int
    left_out: int
    """Attempts that are doubted, unjudged or broken."""


async def mine_skill(options: MiningConfig, settings: Settings, progress: Progress) -> MinedSkill:
    """Mines composite tools in runs and executes them again.

    Raises:
        UserError: No attempt passed, nothing recurs, or no tool was supported by its executions.
        StoreError: A run is not what was recorded.
    """
    judged, secrets, left_out = read_judged(options.runs, settings)
    attempts = _call_attempts(judged)
    passing = sum(one.passed for one in attempts)
    if not passing:
        raise UserError(
            f"no attempt of {', '.join(options.runs)} is an undoubted pass, and tools are mined in passes alone"
        )
    mined = mine_sequences(attempts, least_tasks=options.least_tasks, most=options.most, writes=options.writes)
    if not mined:
        raise UserError(
            f"no sequence of linked calls stands in passing attempts at {options.least_tasks} tasks: make attempts at "
            "more tasks, or allow fewer with --least-tasks"
        )
    executions = await _execute(mined, options.proofs, settings, progress)
    proven = [ProvenTool(one, tuple(executions[one.tool.name]), _leaks(one.tool, secrets)) for one in mined]
    offered = [one for one in proven if one.is_offered]
    if not offered:
        problems = sorted({one.problem for one in proven if one.problem})
        raise UserError(f"none of {len(proven)} mined tools is supported by its executions: {'; '.join(problems[:5])}")
    skill, claims = _write_skill(options.name, offered)
    return MinedSkill(skill, claims, tuple(proven), passing, len(attempts) - passing, left_out)


def _call_attempts(judged: Sequence[ContrastAttempt]) -> list[CallAttempt]:
    readers = find_readers([_single_calls(one.trajectory) for one in judged])
    return [
        CallAttempt(
            EvidenceRef(one.run, one.attempt, one.chain, one.head, ()),
            one.task,
            passed,
            recorded_calls([step for step in one.steps if step.actor == "agent"], readers),
        )
        for one, passed in judged
    ]


def _leaks(tool: CompositeTool, secrets: Sequence[TaskSecrets]) -> tuple[str, ...]:
    files = {SKILL_FILE: tool.describe().encode(), COMPOSITES_FILE: encode_composites([tool])}
    return tuple(map(str, scan_leaks(SkillFolder(tool.name, files), secrets)))


def _single_calls(trajectory: Trajectory) -> tuple[list[str], list[str | None]]:
    steps = [step for step in trajectory.steps if step.actor == "agent" and len(step.tool_calls) == 1]
    return [step.tool_calls[0].name for step in steps], [step.state for step in steps]


async def _execute(
    mined: Sequence[MinedTool], proofs: int, settings: Settings, progress: Progress
) -> dict[str, list[FoldedReplay]]:
    chosen: dict[str, dict[str, list[CompositeTool]]] = defaultdict(lambda: defaultdict(list))
    for one in mined:
        by_task = {held.attempt.task: held.attempt.source for held in one.occurrences}
        for _, source in sorted(by_task.items())[:proofs]:
            chosen[source.run][source.chain].append(one.tool)
    found: dict[str, list[FoldedReplay]] = defaultdict(list)
    for run, chains in sorted(chosen.items()):
        for result in await replay_folded(run, chains, settings, progress):
            found[result.tool].append(result)
    return found


def _write_skill(name: str, offered: Sequence[ProvenTool]) -> tuple[SkillFolder, tuple[Claim, ...]]:
    claims = tuple(_claim(one.mined) for one in offered)
    tools = [one.mined.tool for one in offered]
    used = sorted({call.tool for tool in tools for call in tool.calls})
    description = (
        f"Composite tools that make several calls at once, of the tools {', '.join(used)}. Use one where you would "
        "make its calls one after the other."
    )
    front = render_front_matter(
        {"name": name, "description": description[:1024], "metadata": {"distilled-by": "assay sequence miner"}}
    )
    body = (
        f"# {name}\n\nCounted in attempts that were verified as passed, and executed again before they were written "
        f"here. An agent\nthat loads `{COMPOSITES_FILE}` can call them; any other one makes the calls itself.\n\n"
        "## Tools\n\n"
    )
    text = front + "\n" + body + "\n".join(claim.text for claim in claims) + "\n"
    files = {SKILL_FILE: text.encode(), COMPOSITES_FILE: encode_composites(tools)}
    return SkillFolder(name, files), claims


def _claim(mined: MinedTool) -> Claim:
    steps: dict[EvidenceRef, list[int]] = defaultdict(list)
    for one in mined.occurrences:
        steps[one.attempt.source] += [call.step for call in one.calls]
    evidence = tuple(
        EvidenceRef(ref.run, ref.attempt, ref.chain, ref.head, tuple(sorted(set(numbers))))
        for ref, numbers in steps.items()
    )
    text = (
        f"- `{mined.tool.name}`: {mined.tool.describe()} ({len(mined.occurrences)} times in {mined.passing} passing "
        f"attempts, {mined.failing} failing attempts hold it)"
    )
    return Claim(text=text, kind="text", evidence=evidence, taken=len(mined.occurrences))
