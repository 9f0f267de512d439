"""Measures attempts for selection: verdicts, behaviour and content.

Pure over trajectories. Only the candidate and, until its task is complete, its states are kept in memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import msgspec

from assay.analysis.actions import actions_of
from assay.analysis.interface import Action
from assay.analysis.outcomes import outcome_of
from assay.analysis.quotient import quotient_of, semantic_efficiency
from assay.analysis.recovery import recovery_of
from assay.analysis.stages import Stage, stages_of
from assay.analysis.states import State, states_of
from assay.analysis.waste import waste_of
from assay.formats.shared.output_files import outcome_verdict
from assay.records import Trajectory
from assay.verdicts import current_verdicts_of, is_imported_record, trust_of

from .interface import AttemptCandidate
from .similar import LeakageIndex, minhash_signature


class AttemptMeasurement(NamedTuple):
    """A measured attempt, before the comparison within its task."""

    candidate: AttemptCandidate
    states: tuple[State, ...]
    outcomes: tuple[str, ...]
    """Outcome of each action."""


def measure(trajectory: Trajectory, instruction: str = "", held_out: LeakageIndex | None = None) -> AttemptMeasurement:
    """Measures one attempt."""
    actions = actions_of(trajectory)
    stages = stages_of(actions)
    states = states_of(actions, stages)
    found = recovery_of(actions, states)
    cycles = find_cycles(actions, stages)
    text = agent_text(trajectory, actions)
    verdict = outcome_verdict(trajectory)
    current, trust = current_verdicts_of(trajectory), trust_of(trajectory)
    finished = trajectory.finished
    metrics = finished.metrics if finished else {}
    candidate = AttemptCandidate(
        run=trajectory.run,
        chain=trajectory.chain,
        attempt=trajectory.attempt,
        task=trajectory.task,
        task_digest=trajectory.task_digest,
        agent=trajectory.agent,
        model=trajectory.model,
        head=trajectory.head,
        outcome=trajectory.outcome,
        score=verdict.score if verdict else None,
        integrity=current.integrity,
        process=current.process,
        process_score=min(current.scores.values(), default=None),
        safety=current.safety,
        doubt=trust.doubt,
        imported=is_imported_record(trajectory.started),
        separation=trust.separation,
        stopped=finished.stopped if finished else None,
        acts=len(actions),
        tokens=metrics.get("completion_tokens"),
        cost_usd=metrics.get("cost_usd"),
        density=len({position for cycle in cycles for position in range(*cycle)}) / len(actions) if actions else 0.0,
        cycles=len(cycles),
        errors=len(found.errors),
        recovered=len(found.recovered),
        reflective=sum(not each.repeated for each in found.recovered),
        waste=waste_of(states).severity,
        signature=minhash_signature(text),
        twin=held_out.nearest(f"{instruction}\n{text}", trajectory.task_digest) if held_out else None,
    )
    return AttemptMeasurement(candidate, states, tuple(outcome_of(action) for action in actions))


def compare_within_tasks(measured: Sequence[AttemptMeasurement]) -> list[AttemptCandidate]:
    """Returns candidates with the measures that compare attempts at one task: moves and distinct actions."""
    tasks: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, one in enumerate(measured):
        tasks[one.candidate.task, one.candidate.task_digest].append(number)
    found = [one.candidate for one in measured]
    for numbers in tasks.values():
        group = [measured[number] for number in numbers]
        graph = quotient_of([one.states for one in group], [one.outcomes for one in group], [None] * len(group))
        codes: dict[tuple[int, int], int] = {}
        for position, number in enumerate(numbers):
            moves = {codes.setdefault(pair, len(codes)) for pair in pairwise([0, *graph.walks[position]])}
            found[number] = msgspec.structs.replace(
                found[number], moves=tuple(sorted(moves)), distinct=round(semantic_efficiency(graph, position), 4)
            )
    return found


def find_cycles(actions: Sequence[Action], stages: Sequence[Stage]) -> list[tuple[int, int]]:
    """Returns complete inspect-act-verify cycles as half-open index ranges. Ours.

    A cycle is a run of acts that look (explore or verify), then one that changes (implement), then one that checks
    (verify) of which at least one act returned an observation. Acts that only
    speak or organise break no run. The checking end of a cycle may be the looking beginning of the next.
    """
    runs: list[tuple[Stage, int, int]] = []
    positions = [position for position, stage in enumerate(stages) if stage != "orchestrate"]
    for stage, group_positions in groupby(positions, key=lambda position: stages[position]):
        group = list(group_positions)
        runs.append((stage, group[0], group[-1] + 1))
    found = []
    for (look, start, _), (change, _, _), (check, first, end) in zip(runs, runs[1:], runs[2:], strict=False):
        seen = any(actions[position].observation is not None for position in range(first, end))
        if look in ("explore", "verify") and change == "implement" and check == "verify" and seen:
            found.append((start, end))
    return found


def agent_text(trajectory: Trajectory, actions: Sequence[Action]) -> str:
    """Returns the agent's own text, commands and arguments, in order."""
    steps = {step.index: step for step in trajectory.steps}
    positions: set[int] = set()
    parts = []
    for action in actions:
        step = steps[action.step]
        if action.step not in positions and step.message:
            parts.append(step.message)
        positions.add(action.step)
        if action.command is not None:
            parts.append(action.command)
        elif action.call >= 0:
            # The raw text: what was parsed may hold what no encoder takes.
            parts.append(f"{action.tool} {step.tool_calls[action.call].arguments}")
    return "\n".join(parts)
