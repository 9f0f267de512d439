"""Null twin of the prompt search on the small model: 24 prompts of equal worth (results: `small-model.md`).

A prompt shows three facts, one of them right, in the form of the present prompt; a candidate draws the order of the
facts anew for each task, so that all candidates are equally good and differ by luck alone. The model is greedy and its
reply depends on the prompt alone, so that a task has six possible outcomes, one for each order of its facts. These are
asked once (42 tasks x 6 orders = 252 queries of `small:smollm2-135m`, as ordinary runs of the agent `loop`), and
searches are resampled from them: each draws 12 of the 42 tasks for the search and gives the other 30 to the gate, draws
an order for each candidate and task, takes the candidate with the highest mean, and asks the decision function of
`assay evolve` (one look, level 0.05) if that is above the present prompt's. What the searches share is the pool of
tasks and their 252 replies.

Set before the run with `--record`: 2,000 searches, seed 21; the gate refuses at least 95%.

    python -m experiments.prompt_null --record
"""

from __future__ import annotations

import asyncio
import itertools
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.agents._recall import Recall
from assay.agents.loop import LoopAgent
from assay.agents.memory import RecalledItem
from assay.learning.memory import add_to_memory
from assay.learning.skills.decision import TaskPasses, TrialDesign, decide_trial
from assay.settings import Settings

from ._results import Bar, Recording, Table
from ._running import make_parser, open_recording, open_store
from .small_model import FROZEN, PRESENT, WORLD, attempt_all

SEED, SEARCHES, ALPHA = 21, 2_000, 0.05
CANDIDATES, SEARCH_TASKS, GATE_TASKS = 24, 12, 30
ORDERS = tuple(itertools.permutations(range(3)))
Outcomes = NDArray[np.float64]


class OrderedRecall(Recall):
    """Shows the recalled items in one of their orders."""

    order = ORDERS[0]

    def _show(self, items: list[RecalledItem], task: str) -> str:
        return super()._show([items[at] for at in self.order if at < len(items)], task)


class OrderedLoopAgent(LoopAgent):
    """The agent `loop` with the option `order`: number of the order of its facts."""

    name = "ordered-loop"

    def __init__(self, order: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self._recall = OrderedRecall(self._options)
        self._recall.order = ORDERS[order]


async def ask_outcomes(seed: int, settings: Settings) -> Outcomes:
    """Returns whether each task passes with each order of its facts, of shape (tasks, orders)."""
    tasks = f"{WORLD},n={SEARCH_TASKS + GATE_TASKS},seed={seed}"
    await attempt_all(settings, f"known-{seed}", tasks, "expert")
    memory = settings.store / f"known-{seed}.jsonl"
    if not memory.is_file():
        add_to_memory(memory, [f"known-{seed}"], settings)
    options = {**FROZEN, **PRESENT, "memory": str(memory), "scope": "any", "recall": 3}
    agent = "experiments.prompt_null:OrderedLoopAgent"
    columns = []
    for order in range(len(ORDERS)):
        found = await attempt_all(settings, f"order-{order}-{seed}", tasks, agent, **options, order=order)
        columns.append([found[name] for name in sorted(found)])
        print(f"order {ORDERS[order]}: {fmean(columns[-1]):.3f}", flush=True)
    return np.array(columns).T


def draw_search(outcomes: Outcomes, draw: np.random.Generator) -> tuple[float, float | None, bool]:
    """Returns one search's claimed gain, its gain on the gate's tasks (None without a gate), and the decision."""
    shuffled = draw.permutation(len(outcomes))
    search, gate = shuffled[:SEARCH_TASKS], shuffled[SEARCH_TASKS:]

    def passes(tasks: NDArray[np.int64], candidates: int) -> Outcomes:
        orders = draw.integers(len(ORDERS), size=(candidates, len(tasks)))
        return outcomes[tasks[None, :], orders]

    rates = passes(search, 1 + CANDIDATES).mean(axis=1)
    claimed = float(rates[1:].max() - rates[0])
    if claimed <= 0:
        return claimed, None, False
    base, winner = passes(gate, 2)
    looks = [[TaskPasses(f"t{n:02}", int(a), int(b)) for n, (a, b) in enumerate(zip(base, winner, strict=True))]]
    decision = decide_trial(looks, TrialDesign(ALPHA, len(gate), control="the present configuration"))
    assert decision is not None
    return claimed, float((winner - base).mean()), decision.accepted


def report(outcomes: Outcomes, searches: int, recording: Recording) -> None:
    """Resamples the searches and reports them."""
    draw = np.random.default_rng(SEED)
    found = [draw_search(outcomes, draw) for _ in range(searches)]
    claims, gates = [one[0] for one in found], [one[1] for one in found if one[1] is not None]
    refused = 1 - fmean(one[2] for one in found)
    rows = [
        ["searches", f"{searches:,}"],
        ["winner claimed to be better", f"{fmean(one > 0 for one in claims):.3f}"],
        ["claimed gain, mean", f"{fmean(claims):+.3f}"],
        ["gain on the gate's tasks, mean", f"{fmean(gates):+.3f}"],
        ["refused", f"{refused:.4f}"],
    ]
    by_order = [[str(order), f"{rate:.3f}"] for order, rate in zip(ORDERS, outcomes.mean(axis=0), strict=True)]
    both = {"searches": Table(["null twin", "measured"], rows), "orders": Table(["order of facts", "passed"], by_order)}
    recording.write(both, [Bar("equal prompts are refused in at least 95%", f"{refused:.4f}", refused >= 0.95)])


def main() -> None:
    """Asks the model and resamples."""
    given = make_parser(__doc__).parse_args()
    recording = open_recording("prompt-null", "prompt_null", given, __doc__, [SEED])
    with open_store(given.store) as settings:
        report(asyncio.run(ask_outcomes(SEED, settings)), SEARCHES, recording)


if __name__ == "__main__":
    main()
