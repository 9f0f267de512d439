"""A causal model on a thread of its own that answers many requests at once.

Requests that wait together begin together: they are padded on the left, prefilled in one pass, and then grow by a token
a step. Such a cohort keeps its own cache; a newcomer forms the next cohort at once and never waits for a long answer
to end. Each step gives every cohort one token.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from assay.errors import ProviderError, boundary

from ._sampling import Drawing, log_probabilities, pick

if TYPE_CHECKING:
    import torch

__all__ = ["Engine", "EngineOptions", "Job"]


class EngineOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of the built-in engine."""

    most_at_once: int = 64
    """Requests that are generated at one time; others wait."""
    most_prefill: int = 65536
    """Prompt tokens, padding included, that begin together."""
    window_s: float = 0.003
    """How long an idle engine waits for others after the first request."""


class Job:
    """One request. The engine's thread writes; `tell` is called on that thread with new ids, an end, or an error.

    Args:
        prompt: Token ids, all in the vocabulary.
        how: The distribution.
        seed: Of the drawing.
        most: Tokens at most.
        ends: Whether the answer so far is over.
        steered: Ids that are taken instead of drawn ones, first to last.
        tell: Hears of progress.
    """

    def __init__(self, prompt: Sequence[int], how: Drawing, seed: int, most: int, ends: Ends, tell: Tell) -> None:
        import torch

        self.prompt = list(prompt)
        self.how = how
        self.most = most
        self.steered: list[int] = []
        self.tell = tell
        self.ends = ends
        self.generator = torch.Generator().manual_seed(seed)
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.cancelled = False

    def take(self, logits: torch.Tensor) -> bool:
        """Takes the next token from `logits` of shape (vocabulary,); whether the answer goes on."""
        log_probs = log_probabilities(logits, self.how)
        position = len(self.ids)
        drawn = self.steered[position] if position < len(self.steered) else pick(log_probs, self.how, self.generator)
        self.ids.append(drawn)
        self.logprobs.append(float(log_probs[drawn]))
        over = self.ends(self.ids)
        if over or len(self.ids) >= self.most:
            self.tell([drawn], "stop" if over else "length", None)
            return False
        self.tell([drawn], None, None)
        return not self.cancelled


Tell = Callable[[list[int], str | None, ProviderError | None], None]
Ends = Callable[[Sequence[int]], bool]


class _Cohort:
    """Requests that began together. Shapes: ids (requests, tokens), mask (requests, all tokens so far)."""

    def __init__(self, model: Any, jobs: list[Job]) -> None:
        import torch
        from transformers import DynamicCache

        self._model = model
        self.jobs = jobs
        longest = max(len(job.prompt) for job in jobs)
        padded = [[0] * (longest - len(job.prompt)) + job.prompt for job in jobs]
        shown = [[0] * (longest - len(job.prompt)) + [1] * len(job.prompt) for job in jobs]
        self._ids = torch.tensor(padded, device=model.device)
        self._mask = torch.tensor(shown, device=model.device)
        self._cache = DynamicCache(config=model.config)

    def step(self) -> None:
        """Gives each request a token, and lets go of those that are done."""
        import torch

        positions = (self._mask.cumsum(-1) - 1).clamp(min=0)[:, -self._ids.shape[1] :]
        with torch.inference_mode():
            out = self._model(
                input_ids=self._ids,
                attention_mask=self._mask,
                position_ids=positions,
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            )
            logits = out.logits[:, -1].float().cpu()
            going = [position for position, job in enumerate(self.jobs) if job.take(logits[position])]
            self._keep(going)

    def _keep(self, going: list[int]) -> None:
        import torch

        if len(going) < len(self.jobs):
            self.jobs = [self.jobs[position] for position in going]
            if not going:
                return
            rows = torch.tensor(going, device=self._mask.device)
            self._cache.batch_select_indices(rows)
            self._mask = self._mask[rows]
        self._ids = torch.tensor([[job.ids[-1]] for job in self.jobs], device=self._mask.device)
        one = torch.ones((len(self.jobs), 1), dtype=self._mask.dtype, device=self._mask.device)
        self._mask = torch.cat([self._mask, one], -1)


class Engine:
    """Runs jobs until it is closed. `model` is a Transformers causal language model in evaluation mode."""

    def __init__(self, model: Any, options: EngineOptions | None = None) -> None:
        self._model = model
        self._options = options or EngineOptions()
        self._waiting: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._held: list[Job] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, job: Job) -> None:
        """Queues a job; starts the thread with the first."""
        if self._closed:
            message = "the engine is closed"
            raise ProviderError(message, retryable=False)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="assay-local-model", daemon=True)
            self._thread.start()
        self._waiting.put(job)

    def close(self) -> None:
        """Ends the thread after the step it is at; jobs under way fail. Idempotent."""
        self._closed = True
        self._waiting.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        cohorts: list[_Cohort] = []
        while not self._closed:
            self._gather(idle=not cohorts)
            self._admit(cohorts)
            for cohort in cohorts:
                _guarded(cohort.jobs, cohort.step)
            cohorts = [cohort for cohort in cohorts if cohort.jobs]
        left = [job for cohort in cohorts for job in cohort.jobs] + self._held
        for job in left:
            job.tell([], None, ProviderError("the local model was closed", retryable=False))

    def _gather(self, *, idle: bool) -> None:
        """Takes what waits; an idle engine waits for something, and a moment longer for company."""
        until = time.monotonic()
        if idle and not self._held:
            self._hold(self._waiting.get())
            until = time.monotonic() + self._options.window_s
        while not self._closed:
            try:
                left = until - time.monotonic()
                self._hold(self._waiting.get(timeout=left) if left > 0 else self._waiting.get_nowait())
            except queue.Empty:
                return

    def _hold(self, job: Job | None) -> None:
        if job is not None:
            self._held.append(job)

    def _admit(self, cohorts: list[_Cohort]) -> None:
        """Lets held jobs begin, as many as fit beside those under way; the shortest prompts of them share a pass."""
        free = self._options.most_at_once - sum(len(cohort.jobs) for cohort in cohorts)
        chosen, self._held = [job for job in self._held[:free] if not job.cancelled], self._held[free:]
        chosen.sort(key=lambda job: len(job.prompt))
        while chosen:
            count = 1
            while count < len(chosen) and (count + 1) * len(chosen[count].prompt) <= self._options.most_prefill:
                count += 1
            begun, chosen = chosen[:count], chosen[count:]
            _guarded(begun, lambda begun=begun: cohorts.append(_Cohort(self._model, begun)))  # type: ignore[misc]


def _guarded(jobs: list[Job], act: Callable[[], None]) -> None:
    """Whatever the model does wrong ends these jobs and no others."""
    try:
        with boundary(ProviderError, "the local model"):
            act()
    except ProviderError as exc:
        failed, jobs[:] = list(jobs), []
        for job in failed:
            job.tell([], None, exc)
