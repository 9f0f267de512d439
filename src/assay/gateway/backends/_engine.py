"""Continuous batching for a causal model on a dedicated thread.

Each pass generates one token for every running request. Prompts are read in passes of their own, left-padded. Keys and
values stay in a prefix cache (`_kv_cache`), so a follow-up request reads only its new tokens, and requests with a
common prefix read it once.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from assay.errors import ProviderError, boundary
from assay.records import WeightSpan

from ._kv_cache import CachedSequence, CachePass, PrefixKVCache
from ._sampling import SamplingParams, draw_tokens, log_probabilities

if TYPE_CHECKING:
    import torch

_MASK_CELLS = 1 << 26
"""Maximum attention-mask cells of one pass; longer prompts are read in several passes."""


class EngineOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of the built-in engine."""

    most_at_once: int = 256
    """Maximum requests generated at a time; further ones are queued."""
    most_prefill: int = 16384
    """Maximum prompt tokens, padding included, of one pass."""
    window_s: float = 0.003
    """Seconds for which an idle engine waits for further requests after the first."""
    cache_mib: int = 512
    """Memory in MiB for finished conversations."""


class GenerationJob:
    """One request. The engine's thread calls `on_progress` with new ids, a finish reason, or an error."""

    def __init__(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        seed: int,
        max_tokens: int,
        is_finished: IsFinished,
        on_progress: OnProgress,
    ) -> None:
        import torch

        self.prompt = list(prompt)
        self.params = params
        self.max_tokens = max_tokens
        self.steered: list[int] = []
        """Forced token ids, used before sampling starts."""
        self.streamed = True
        """Calls `on_progress` for each token if true, else at the end only."""
        self.on_progress = on_progress
        self.is_finished = is_finished
        self.generator = torch.Generator().manual_seed(seed)
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.shared = 0
        """Prompt tokens found in the cache."""
        self.version: str | None = None
        """Version of the weights that sample."""
        self.spans: list[WeightSpan] = []
        """Earlier versions that sampled tokens."""
        self.sequence: CachedSequence | None = None
        self.cancelled = False

    def unread(self) -> int:
        """Returns the number of tokens that the model has not read."""
        return 0 if self.sequence is None else len(self.sequence.ids) - len(self.sequence.slots)

    def change_version(self, version: str | None) -> None:
        """Notes that other weights sample from here on; at least one token follows."""
        sampled = self.spans[-1].end if self.spans else 0
        if version != self.version and len(self.ids) != sampled:
            self.spans.append(WeightSpan(self.version or "", len(self.ids)))
        self.version = version

    def add_token(self, token: int, logprob: float) -> bool:
        """Adds the next token; returns whether generation continues."""
        self.ids.append(token)
        self.logprobs.append(logprob)
        over = self.is_finished(self.ids)
        if over or len(self.ids) >= self.max_tokens:
            self.on_progress([token], "stop" if over else "length", None)
            return False
        if self.streamed:
            self.on_progress([token], None, None)
        return not self.cancelled


OnProgress = Callable[[list[int], str | None, ProviderError | None], None]
IsFinished = Callable[[Sequence[int]], bool]


class _WeightUpdate(NamedTuple):
    act: Callable[[], str | None]
    done: Callable[[ProviderError | None], None]
    in_flight: bool


class Engine:
    """Runs jobs until it is closed. `model` is a Transformers causal language model in evaluation mode."""

    def __init__(self, model: Any, options: EngineOptions | None = None, version: str | None = None) -> None:
        self._model = model
        self._options = options or EngineOptions()
        self._version = version
        self._kinds = attention_windows(model.config)
        self._pool = PrefixKVCache(self._options.cache_mib << 20)
        self._waiting: queue.SimpleQueue[GenerationJob | _WeightUpdate | None] = queue.SimpleQueue()
        self._queued: list[GenerationJob] = []
        self._weight_updates: list[_WeightUpdate] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, job: GenerationJob) -> None:
        """Queues a job; starts the thread with the first."""
        self._put(job)

    def change(
        self,
        act: Callable[[], str | None],
        done: Callable[[ProviderError | None], None],
        *,
        in_flight: bool = False,
    ) -> None:
        """Queues a weight update: running requests finish first, later ones use the new weights.

        With `in_flight`, running requests do not finish first: they go on under the new weights from their next token,
        and what they have read is read again.
        """
        self._put(_WeightUpdate(act, done, in_flight))

    def _put(self, what: GenerationJob | _WeightUpdate) -> None:
        if self._closed:
            raise ProviderError("the engine is closed", retryable=False)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="assay-local-model", daemon=True)
            self._thread.start()
        self._waiting.put(what)

    def close(self) -> None:
        """Ends the thread after the pass it is at; jobs under way fail. Idempotent."""
        self._closed = True
        self._waiting.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        jobs: list[GenerationJob] = []
        while not self._closed:
            self._collect(idle=not jobs)
            if self._weight_updates and (not jobs or all(update.in_flight for update in self._weight_updates)):
                self._apply_weight_updates(jobs)
            if not self._weight_updates:
                jobs += self._start_queued(self._options.most_at_once - len(jobs))
            for batch in self._plan_passes(jobs):
                self._run_pass(batch, lambda batch=batch: self._advance(batch))  # type: ignore[misc]
            jobs = [job for job in jobs if job.sequence is not None]
        closed = ProviderError("the local model was closed", retryable=False)
        for job in jobs + self._queued:
            job.on_progress([], None, closed)
        for change in self._weight_updates:
            change.done(closed)

    def _collect(self, *, idle: bool) -> None:
        """Moves waiting items to the queue; an idle engine blocks for the first, then waits `window_s` for more."""
        until = time.monotonic()
        if idle and not self._queued and not self._weight_updates:
            self._enqueue(self._waiting.get())
            until = time.monotonic() + self._options.window_s
        while not self._closed and not self._weight_updates:
            try:
                wait_s = until - time.monotonic()
                self._enqueue(self._waiting.get(timeout=wait_s) if wait_s > 0 else self._waiting.get_nowait())
            except queue.Empty:
                return

    def _enqueue(self, what: GenerationJob | _WeightUpdate | None) -> None:
        if isinstance(what, _WeightUpdate):
            self._weight_updates.append(what)
        elif what is not None:
            self._queued.append(what)

    def _apply_weight_updates(self, jobs: Sequence[GenerationJob]) -> None:
        """Applies queued updates; requests that were queued but not started use the new weights."""
        changes, self._weight_updates = self._weight_updates, []
        for job in jobs:
            if job.sequence is not None:
                self._pool.release(job.sequence)
        for change in changes:
            self._pool.clear()
            problem = None
            try:
                with boundary(ProviderError, "changing the local model's weights"):
                    self._version = change.act()
            except ProviderError as exc:
                problem = exc
            change.done(problem)
        for job in jobs:
            job.change_version(self._version)

    def _start_queued(self, free: int) -> list[GenerationJob]:
        """Starts queued jobs. A job whose prefix another one is about to read waits for it."""
        started: list[GenerationJob] = []
        reading: set[tuple[int, ...]] = set()
        later: list[GenerationJob] = []
        for job in self._queued:
            if job.cancelled:
                continue
            if len(started) >= free:
                later.append(job)
                continue
            job.sequence = self._pool.begin(job.prompt)
            unread = tuple(job.prompt)
            if job.unread() > 1 and unread in reading:
                self._pool.release(job.sequence)
                job.sequence = None
                later.append(job)
                continue
            reading.add(unread)
            job.shared, job.version = len(job.sequence.slots), self._version
            started.append(job)
        self._queued = later
        return started

    def _plan_passes(self, jobs: Sequence[GenerationJob]) -> list[list[GenerationJob]]:
        """Groups jobs into passes: first those with one unread token, then the others by unread length."""
        passes: list[list[GenerationJob]] = []
        for job in sorted(jobs, key=GenerationJob.unread):
            batch = passes[-1] if passes else []
            count = len(batch) + 1
            fits = batch and job.unread() * count <= self._options.most_prefill
            if fits and (job.unread() == 1 or batch[0].unread() > 1):
                batch.append(job)
            else:
                passes.append([job])
        return passes

    def _advance(self, jobs: list[GenerationJob]) -> None:
        """Reads tokens of these jobs and samples a next one for each whose prompt is complete."""
        sequences = [job.sequence for job in jobs if job.sequence is not None]
        longest = max(len(sequence.ids) for sequence in sequences)
        width = max(1, min(max(job.unread() for job in jobs), _MASK_CELLS // (longest * len(jobs))))
        logits = self._read(sequences, width)
        ready = [position for position, job in enumerate(jobs) if job.unread() == 0]
        if not ready:
            return
        continuing = _draw_next_tokens(logits[ready], [jobs[position] for position in ready])
        for position, goes_on in zip(ready, continuing, strict=True):
            job, sequence = jobs[position], sequences[position]
            if len(job.ids) == 1 and goes_on:
                self._pool.publish(sequence)
            sequence.ids.append(job.ids[-1])
            if not goes_on:
                sequence.ids.pop()  # it was never read
                self._pool.finish(sequence)
                job.sequence = None

    def _read(self, sequences: Sequence[CachedSequence], width: int) -> torch.Tensor:
        """Reads up to `width` tokens of each; returns the last logits, of shape (requests, vocabulary)."""
        import torch

        ids = np.zeros((len(sequences), width), dtype=np.int64)
        target_slots, positions = np.zeros_like(ids), np.zeros_like(ids)
        for row, sequence in enumerate(sequences):
            known = len(sequence.slots)
            count = min(width, len(sequence.ids) - known)
            ids[row, width - count :] = sequence.ids[known : known + count]
            target_slots[row, width - count :] = self._pool.allocate(sequence, count)
            positions[row, width - count :] = np.arange(known, known + count)
        visible = np.zeros((len(sequences), max(len(sequence.slots) for sequence in sequences)), dtype=np.int64)
        for row, sequence in enumerate(sequences):
            visible[row, : len(sequence.slots)] = sequence.slots
        device = self._model.device
        at = torch.from_numpy(positions).to(device)
        with torch.inference_mode():
            out = self._model(
                input_ids=torch.from_numpy(ids).to(device),
                attention_mask=_attention_masks(self._kinds, at, visible.shape[1], self._model.dtype),
                position_ids=at,
                past_key_values=CachePass(self._pool, target_slots, visible, device).cache(),
                use_cache=True,
                logits_to_keep=1,
            )
            return out.logits[:, -1].cpu()

    def _run_pass(self, jobs: list[GenerationJob], act: Callable[[], None]) -> None:
        """Runs one pass; an error ends the jobs of this pass only."""
        try:
            with boundary(ProviderError, "the local model"):
                act()
        except ProviderError as exc:
            for job in jobs:
                if job.sequence is not None:
                    self._pool.release(job.sequence)
                    job.sequence = None
                    job.on_progress([], None, exc)


def attention_windows(config: Any) -> dict[str, int | None]:
    """Returns the window of each attention kind of a model (None: unlimited)."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    window = getattr(text, "sliding_window", None)
    kinds = set(getattr(text, "layer_types", None) or ["sliding_attention" if window else "full_attention"])
    if kinds - {"full_attention", "sliding_attention"}:
        raise ProviderError(
            f"the built-in engine cannot run layers of the kind {', '.join(sorted(kinds))}: serve it with vLLM",
            retryable=False,
        )
    return {kind: window if kind == "sliding_attention" else None for kind in sorted(kinds)}


def _attention_masks(kinds: dict[str, int | None], positions: torch.Tensor, longest: int, dtype: torch.dtype) -> Any:
    """Returns additive attention masks, of shape (requests, 1, new tokens, all tokens)."""
    import torch

    keys = torch.arange(longest, device=positions.device)
    ahead = positions[:, None, :, None] - keys
    found: dict[str, torch.Tensor] = {}
    for kind, window in kinds.items():
        hidden = ahead < 0 if window is None else (ahead < 0) | (ahead >= window)
        found[kind] = torch.zeros_like(hidden, dtype=dtype).masked_fill_(hidden, torch.finfo(dtype).min)
    return next(iter(found.values())) if len(found) == 1 else found


def _draw_next_tokens(logits: torch.Tensor, jobs: Sequence[GenerationJob]) -> list[bool]:
    """Samples each job's next token from `logits` of shape (jobs, vocabulary); returns which jobs continue."""
    continuing = [False] * len(jobs)
    for params in dict.fromkeys(job.params for job in jobs):
        rows = [row for row, job in enumerate(jobs) if job.params == params]
        log_probs = log_probabilities(logits[rows], params)
        points = [_uniform(jobs[row]) for row in rows]
        tokens = draw_tokens(log_probs, params, points)
        for position, row in enumerate(rows):
            job = jobs[row]
            if len(job.ids) < len(job.steered):
                tokens[position] = job.steered[len(job.ids)]
        chosen = log_probs[range(len(rows)), tokens].float().tolist()
        for row, token, logprob in zip(rows, tokens, chosen, strict=True):
            continuing[row] = jobs[row].add_token(token, logprob)
    return continuing


def _uniform(job: GenerationJob) -> float:
    import torch

    return float(torch.rand(1, generator=job.generator, dtype=torch.float64).item())
