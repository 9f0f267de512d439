"""Search of texts with the library GEPA (extra `gepa`): reflective mutation on a Pareto front of tasks.

Each evaluation is an ordinary run; the score of a task is the share of its attempts that passed by our verdict, and the
feedback is that verdict's reason with the evidence that it cites. New texts come from a model, or in turn from the
values that the recipe lists.

The library is given no folder, so that it writes no pickle and reads none. A search that was interrupted begins anew
with the same seed; it finds its runs in the store and the model's texts in the ledger, and comes to the same result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from assay.errors import UserError
from assay.tasks import LoadedTask

if TYPE_CHECKING:
    from gepa.core.adapter import EvaluationBatch

Texts = dict[str, str]


class TaskFeedback(NamedTuple):
    """Result of a candidate at one task."""

    task: str
    instruction: str
    outputs: str
    """The last messages and calls of the agent."""
    feedback: str
    """Verdict, reason and cited evidence."""
    score: float


class CandidateRuns(Protocol):
    """Makes the runs and asks the model for the library."""

    async def evaluate_texts(self, texts: Texts, tasks: Sequence[LoadedTask]) -> list[TaskFeedback]:
        """Makes a run of one candidate; returns the feedback of each task, in the order of the tasks."""
        ...

    async def propose_text(self, prompt: str) -> str:
        """Returns the model's answer to a prompt, from the ledger if it was given before."""
        ...


class GepaOptions(NamedTuple):
    """Options of the search."""

    seed: int
    attempts: int
    """Attempts that may be made; the last candidate is evaluated whole."""
    values: Mapping[str, Sequence[str]]
    """Listed values of each text."""
    has_model: bool
    """True if a model writes new texts."""


def require_gepa() -> None:
    """Raises `UserError` if the library is not installed."""
    try:
        import gepa  # noqa: F401
    except ImportError as exc:
        raise UserError(
            "search.method = 'gepa' needs the library gepa: install assay[gepa], or take another method"
        ) from exc


async def search_texts(start: Texts, tasks: Sequence[LoadedTask], runs: CandidateRuns, options: GepaOptions) -> Texts:
    """Returns the candidate with the best mean on all tasks, the earliest of equals."""
    require_gepa()
    loop = asyncio.get_running_loop()

    def wait(made: Awaitable[Any]) -> Any:
        async def finish() -> Any:
            return await made

        return asyncio.run_coroutine_threadsafe(finish(), loop).result()

    return await asyncio.to_thread(_optimise, start, tasks, _Adapter(runs, options, wait), options)


def _optimise(start: Texts, tasks: Sequence[LoadedTask], adapter: _Adapter, options: GepaOptions) -> Texts:
    import gepa

    found = gepa.optimize(
        dict(start),
        trainset=list(tasks),
        adapter=adapter,
        reflection_lm=adapter.reflect if options.has_model else None,
        max_metric_calls=options.attempts,
        seed=options.seed,
        logger=_NoLog(),
        run_dir=None,
        raise_on_exception=True,
        display_progress_bar=False,
    )
    scores = found.val_aggregate_scores
    best: Texts = found.candidates[max(range(len(scores)), key=lambda i: (scores[i], -i))]
    return best


class _NoLog:
    def log(self, message: str) -> None:
        """Drops the library's own progress: each run is reported by the search."""


class _Adapter:
    """The library's view of our runs."""

    def __init__(self, runs: CandidateRuns, options: GepaOptions, wait: Callable[[Awaitable[Any]], Any]) -> None:
        self._runs, self._options, self._wait = runs, options, wait
        self._proposed: dict[str, int] = {}
        self.propose_new_texts = None if options.has_model else self._next_values

    def evaluate(
        self,
        batch: list[LoadedTask],
        candidate: Texts,
        capture_traces: bool = False,  # noqa: FBT001 - the library passes it so
    ) -> EvaluationBatch:
        from gepa.core.adapter import EvaluationBatch

        found: list[TaskFeedback] = self._wait(self._runs.evaluate_texts(candidate, batch))
        traces = found if capture_traces else None
        return EvaluationBatch([one.outputs for one in found], [one.score for one in found], traces)

    def make_reflective_dataset(
        self, candidate: Texts, eval_batch: EvaluationBatch, components_to_update: list[str]
    ) -> dict[str, list[dict[str, str]]]:
        """Returns what the model is shown: the same of each task for every text."""
        rows = [
            {"Inputs": one.instruction, "Generated Outputs": one.outputs, "Feedback": one.feedback}
            for one in eval_batch.trajectories or ()
        ]
        return dict.fromkeys(components_to_update, rows)

    def reflect(self, prompt: str | list[dict[str, Any]]) -> str:
        text = prompt if isinstance(prompt, str) else "\n\n".join(str(one["content"]) for one in prompt)
        answer: str = self._wait(self._runs.propose_text(text))
        return answer

    def _next_values(self, candidate: Texts, reflective_dataset: Any, components_to_update: list[str]) -> Texts:
        return {name: self._next_value(name, candidate[name]) for name in components_to_update}

    def _next_value(self, name: str, present: str) -> str:
        values = [value for value in self._options.values[name] if value != present] or [present]
        turn = self._proposed[name] = self._proposed.get(name, -1) + 1
        return values[turn % len(values)]
