"""Effects of contexts on a small real language model: `docs/experiments/small-model.md` has the results.

The model is SmolLM2 135M (`small:smollm2-135m`), greedy, in `locks_world`; every attempt is an ordinary run of the
agent `loop`, every memory is written by `assay memory` from verified attempts, every search is an `assay evolve`.

    python -m experiments.small_model memory --record     # one fact, none, eight, and stale ones
    python -m experiments.small_model prompts --record    # 24 prompts, chosen on 12 tasks
    python -m experiments.small_model context --record    # what is lost when a conversation is cut

Set before the runs of `memory` and `prompts`, whose seeds (11 to 15) were new. `memory`, 10 facts in each of five
seeds: one right fact at least .90, no memory at most .30, eight facts in the default order of `loop` (best one last) at
least .50 below one fact, no stale fact shown and every fresh one. `prompts`, five seeds: the winner at least .25
above the present prompt on held-out tasks, in the mean and in every seed; what the search claimed is printed beside it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from assay.agents.memory import MemoryRecord, read_memory
from assay.cli.context_table import read_context_cuts
from assay.gateway.interface import ModelRequest
from assay.learning.evolution.evolve import EvolveReport, evolve
from assay.learning.evolution.recipe import EvolveRecipe
from assay.learning.memory import add_to_memory
from assay.rollout import RunConfig
from assay.settings import Settings
from assay.store import RunStore, final_rows
from assay.store.chained_file import ChainedFile
from assay.tasks import find_tasks

from ._paired import mean_cell
from ._results import Bar, Recording, Table
from ._running import make_parser, open_recording, open_store, run_outcomes
from .locks_world import TOOLS

MODEL = "small:smollm2-135m"
WORLD = f"family:{Path(__file__).parent / 'locks_world.py'}:LocksTasks"
USE = {"tool_choice": {"type": "function", "function": {"name": "use"}}}
FROZEN: dict[str, Any] = {"system": "", "sampling": USE, "memory_item": "{when}\n{act}\n{what}\n"}
"""Options of the agent, chosen on other facts than the published ones and not changed since."""
TASKS = 10
SEEDS, FRESH_SEEDS = (1, 2, 3, 4, 5), (11, 12, 13, 14, 15)
CHANGED = 0.2
FORMS = {
    "memory_item": ["{when}\n{act}\n{what}\n", "{what}", "- {what}", "{act}: {what}"],
    "memory_order": ["best-first", "best-last"],
    "memory_prompt": ["{items}\n{task}", "{task}\n{items}", "Notes:\n{items}\n\nTask: {task}\nAnswer:"],
}
"""4 x 2 x 3 = 24 prompts."""
PRESENT = {"memory_item": "- {what}", "memory_order": "best-first", "memory_prompt": FORMS["memory_prompt"][2]}
Outcomes = dict[str, float]


async def attempt_all(
    settings: Settings, run: str, tasks: str, agent: str = "loop", model: str = MODEL, **options: Any
) -> Outcomes:
    """Makes one attempt at each task; returns which passed."""
    config = RunConfig(
        tasks=(tasks,),
        agent=agent,
        agent_options=options,
        model=None if agent == "expert" else model,
        run=run,
        concurrency=1,
    )
    return await run_outcomes(config, settings)


async def learn(settings: Settings, seed: int, run: str, tasks: str) -> Path:
    """Has an expert make the tasks once, and returns the memory of that."""
    memory = settings.store / f"{run}-{seed}.jsonl"
    await attempt_all(settings, f"{run}-{seed}", tasks, "expert")
    add_to_memory(memory, [f"{run}-{seed}"], settings)
    return memory


# ---- one fact, none, eight, stale ones ----


async def run_memory(seed: int, settings: Settings) -> dict[str, Outcomes]:
    """Returns which tasks passed in each arm; with `changed`, of the changed tasks alone in the arms named so."""
    tasks, changed = f"{WORLD},n={TASKS},seed={seed}", f"{WORLD},n={TASKS},seed={seed},share={CHANGED}"
    memory = await learn(settings, seed, "first", tasks)
    present = {one.task.id: one.task.digest for one in find_tasks([changed])}
    trusted = memory.with_suffix(".trusted")
    relabel(memory, trusted, present)
    eight: dict[str, Any] = {"memory": str(memory), "recall": 8, "scope": "any"}
    arms: dict[str, tuple[str, dict[str, Any]]] = {
        "no memory": (tasks, {}),
        "one fact, the right one": (tasks, {"memory": str(memory), "recall": 1}),
        "eight facts, the right one first": (tasks, {**eight, "memory_order": "best-first"}),
        "eight facts, the right one last": (tasks, eight),
        "a fifth stale, used all the same": (changed, {"memory": str(trusted), "recall": 1}),
        "a fifth stale, dropped": (changed, {"memory": str(memory), "recall": 1}),
    }
    found = dict[str, Outcomes]()
    for number, (arm, (where, options)) in enumerate(arms.items()):
        found[arm] = await attempt_all(settings, f"arm-{number}-{seed}", where, **FROZEN, **options)
    stale = {one.task for one in read_memory(memory) if present[one.task] != one.task_digest}
    shown = shown_heads(settings, f"arm-5-{seed}")
    heads = {one.task: one.head for one in read_memory(memory)}
    found["stale facts shown"] = {task: float(heads[task] in shown[task]) for task in stale}
    found["fresh facts shown"] = {task: float(heads[task] in shown[task]) for task in heads.keys() - stale}
    return found


def relabel(memory: Path, to: Path, digests: Mapping[str, str]) -> None:
    """Writes a memory whose stale records claim to be of the present tasks: what dropping them prevents."""
    to.unlink(missing_ok=True)
    previous = ""
    with ChainedFile(to, MemoryRecord).locked() as append:
        for record in read_memory(memory):
            claimed = msgspec.structs.replace(record, task_digest=digests[record.task], previous=previous)
            append(claimed)
            previous = claimed.digest


def shown_heads(settings: Settings, run: str) -> dict[str, set[str]]:
    """Returns the heads of the records that each attempt's prompt held."""
    with RunStore.open(settings.store, run) as store:
        found = [store.trajectory(row.chain) for row in final_rows(store.attempts())]
    return {
        one.task: {head for item in one.evidence if item.kind == "memory_used" for head in item.data["records"]}
        for one in found
    }


ONE, NONE, EIGHT = "one fact, the right one", "no memory", "eight facts, the right one last"


def report_memory(results: Sequence[Mapping[str, Outcomes]], recording: Recording) -> None:
    """Reports the arms by seed, the differences of the bars, and the bars."""

    def rates(arm: str) -> list[float]:
        return [fmean(result[arm].values()) for result in results if result[arm]]  # a seed may change no task

    rows = [[arm, *(f"{one:.2f}" for one in rates(arm)), f"{fmean(rates(arm) or [0.0]):.3f}"] for arm in results[0]]
    columns = ["arm", *(f"seed {seed}" for seed in recording.seeds), "mean"]
    whole = [row for row in rows if len(row) == len(columns)]
    pairs = {
        arm: [result[arm][task] - result[ONE][task] for result in results for task in result[arm]]
        for arm in (NONE, EIGHT, "eight facts, the right one first")
    }
    lower = -fmean(pairs[EIGHT])
    stale, fresh = fmean(rates("stale facts shown") or [0.0]), fmean(rates("fresh facts shown"))
    bars = [
        Bar("one right fact at least .90", f"{fmean(rates(ONE)):.3f}", fmean(rates(ONE)) >= 0.9),
        Bar("no memory at most .30", f"{fmean(rates(NONE)):.3f}", fmean(rates(NONE)) <= 0.3),
        Bar("eight facts, the best one last, lower by at least .50", f"{lower:.3f}", lower >= 0.5),
        Bar("stale facts dropped, fresh ones shown", f"{stale:.2f} and {fresh:.2f} of them shown", stale == 0 < fresh),
    ]
    differences = Table(
        ["against one right fact", "difference [95%]"], [[arm, mean_cell(some)] for arm, some in pairs.items()]
    )
    recording.write({"arms": Table(columns, whole), "differences": differences}, bars)


# ---- prompts ----


async def run_prompts(seed: int, settings: Settings) -> EvolveReport:
    """Chooses one of 24 prompts, each showing three facts, on 12 tasks; decides on 30 others."""
    search, gate = f"{WORLD},n=12,seed={seed * 10 + 1}", f"{WORLD},n=30,seed={seed * 10 + 2}"
    memory = await learn(settings, seed, "known", search)
    await attempt_all(settings, f"known-gate-{seed}", gate, "expert")
    add_to_memory(memory, [f"known-gate-{seed}"], settings)
    base = {**FROZEN, **PRESENT, "memory": str(memory), "scope": "any", "recall": 3}
    fields = {
        "name": f"grid-{seed}", "agent": "loop", "model": MODEL, "base": base, "space": FORMS, "concurrency": 1,
        "search": {"tasks": [search], "method": "grid", "seed": seed},
        "gate": {"tasks": [gate], "seed": seed, "looks": 1},
    }  # fmt: skip
    return await evolve(msgspec.convert(fields, EvolveRecipe), settings)


def report_searches(found: Sequence[EvolveReport], recording: Recording) -> None:
    """Reports what each search claimed beside what the gate measured."""
    rows = []
    for one in found:
        changed = ", ".join(f"{k}={v!r}" for k, v in one.winner.items() if one.base.get(k) != v) or "the base"
        held = ["-", "-"] if one.held_out is None else [f"{rate:.3f}" for rate in one.held_out]
        claimed = [f"{rate:.3f}" for rate in one.claimed]
        rows.append([one.name, *claimed, *held, "accepted" if one.accepted else "refused", f"`{changed}`"])
    gains = [0.0 if one.held_out is None else one.held_out[1] - one.held_out[0] for one in found]
    claims = [one.claimed[1] - one.claimed[0] for one in found]
    shown = f"{fmean(gains):+.3f} in the mean, {min(gains):+.3f} in the worst seed (claimed {fmean(claims):+.3f})"
    columns = ["search", "present, claimed", "winner, claimed", "present, true", "winner, true", "decision", "winner"]
    bars = [Bar("held out at least .25 above the present prompt, in every seed", shown, min(gains) >= 0.25)]
    rates = [sorted(candidate.rate for candidate in one.candidates) for one in found]
    recording.write({"searches": Table(columns, rows)}, bars, rates_of_all_prompts=rates)


# ---- cut conversations ----


FACT = re.compile(r"To open the (\w+), use the (\w+)\.")
NOTES, FILLER = 6, 400


def read_notes(request: ModelRequest, most: int = NOTES) -> dict[str, Any] | str:
    """Reads all notes and uses the tool that its context names, else a hammer; its summary lists what it knows.

    A rule in place of a model: it forgets exactly what its context no longer holds.
    """
    text = "\n".join(str(message["content"]) for message in request.messages)
    facts = dict(FACT.findall(text))
    if not request.tools:
        return " ".join(f"To open the {name}, use the {tool}." for name, tool in list(facts.items())[-most:])
    ids = [call["id"] for message in request.messages for call in message.get("tool_calls") or ()]
    read = int(ids[-1].removeprefix("read")) if ids else 0
    if read < NOTES:
        return {"tool_calls": [{"name": "read", "arguments": {}, "id": f"read{read + 1}"}]}
    name = text.split("Open the ")[1].split(".")[0]
    return {"tool_calls": [{"name": "use", "arguments": {"tool": facts.get(name, TOOLS[0])}}]}


def read_notes_briefly(request: ModelRequest) -> dict[str, Any] | str:
    """The same with a summary of the latest two facts."""
    return read_notes(request, 2)


async def run_context(seed: int, settings: Settings) -> dict[str, Outcomes]:
    """Returns which tasks passed under each policy."""
    tasks = f"{WORLD},n=40,notes={NOTES},filler={FILLER},seed={seed}"
    cut: dict[str, dict[str, Any]] = {
        name: {"context": name, "context_chars": 1_200} for name in ("drop", "trim", "summarise")
    }
    arms = {"whole": ("read_notes", {}), **{name: ("read_notes", options) for name, options in cut.items()}}
    arms["summarise, two facts"] = ("read_notes_briefly", cut["summarise"])
    found = dict[str, Outcomes]()
    for number, (name, (script, options)) in enumerate(arms.items()):
        model, known = f"scripted:experiments.small_model:{script}", {"system": "", "keep_outputs": 1, **options}
        found[name] = await attempt_all(settings, f"context-{number}-{seed}", tasks, model=model, **known)
        runs = [f"context-{number}-{seed}", f"context-0-{seed}"]
        cuts = read_context_cuts(settings.store, runs)[: len(found[name])]
        for count in ("dropped", "known", "needed"):
            found[f"{name}: {count}"] = {"all": float(sum(getattr(cut.outputs, count) for cut in cuts))}
    return found


def report_context(results: Sequence[Mapping[str, Outcomes]], recording: Recording) -> None:
    """Reports each policy against the whole conversation."""
    rows = []
    for policy in [name for name in results[0] if ": " not in name]:
        rates = [value for result in results for value in result[policy].values()]
        pairs = [result[policy][task] - result["whole"][task] for result in results for task in result[policy]]
        dropped, known, needed = (
            sum(result[f"{policy}: {n}"]["all"] for result in results) for n in ("dropped", "known", "needed")
        )
        later = f"{needed:.0f} of {known:.0f} ({needed / known:.0%})" if known else "-"
        against = "" if policy == "whole" else mean_cell(pairs)
        rows.append([policy, f"{fmean(rates):.3f}", against, f"{dropped:.0f}", later])
    columns = ["policy", "passed", "against the whole conversation [95%]", "outputs dropped", "needed later"]
    recording.write({"policies": Table(columns, rows)})


Run = Callable[[int, Settings], Coroutine[Any, Any, Any]]
PARTS: dict[str, tuple[Run, Callable[[Any, Recording], None], Sequence[int]]] = {
    "memory": (run_memory, report_memory, FRESH_SEEDS),
    "prompts": (run_prompts, report_searches, FRESH_SEEDS),
    "context": (run_context, report_context, SEEDS),
}
"""Parts with the seeds of their plans."""


def main() -> None:
    """Runs one part for each seed."""
    given = make_parser(__doc__, list(PARTS), ()).parse_args()
    run, report, seeds = PARTS[given.part]
    recording = open_recording(f"small-model-{given.part}", f"small_model {given.part}", given, __doc__, seeds)
    with open_store(given.store) as settings:
        results = []
        for seed in recording.seeds:
            results.append(asyncio.run(run(seed, settings)))
            print(f"seed {seed} is done", flush=True)
        report(results, recording)


if __name__ == "__main__":
    main()
