"""A causal model on a thread of its own that answers many requests at once.

Every request that is under way gets a token with each pass, whenever it came; prompts are read in passes of their own,
padded on the left. What a conversation has read stays in a pool of places (`_pool`), so a request that goes on with
one reads only what is new, and requests that begin alike read their common beginning once.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from assay.errors import ProviderError, boundary

from ._pool import Reading, Talk, TokenPool
from ._sampling import Drawing, log_probabilities, pick

if TYPE_CHECKING:
    import torch

__all__ = ["Engine", "EngineOptions", "Job", "mask_kinds"]

_MASK_CELLS = 1 << 26
"""Cells of one pass's attention mask, at most: longer prompts are read in several passes."""


class EngineOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of the built-in engine."""

    most_at_once: int = 256
    """Requests that are generated at one time; others wait."""
    most_prefill: int = 16384
    """Prompt tokens, padding included, that are read in one pass."""
    window_s: float = 0.003
    """How long an idle engine waits for others after the first request."""
    cache_mib: int = 512
    """Memory for conversations that have ended and may go on."""


class Job:
    """One request. The engine's thread writes; `tell` is called on that thread with new ids, an end, or an error.

    Args:
        prompt: Token ids, all in the vocabulary.
        how: The distribution.
        seed: Of the drawing.
        most: Tokens at most.
        ends: Whether the answer so far is over.
        tell: Hears of progress.
    """

    def __init__(self, prompt: Sequence[int], how: Drawing, seed: int, most: int, ends: Ends, tell: Tell) -> None:
        import torch

        self.prompt = list(prompt)
        self.how = how
        self.most = most
        self.steered: list[int] = []
        """Ids that are taken instead of drawn ones, first to last."""
        self.streamed = True
        """Whether `tell` hears of every token, or of the end alone."""
        self.tell = tell
        self.ends = ends
        self.generator = torch.Generator().manual_seed(seed)
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.shared = 0
        """Tokens of the prompt that were read before."""
        self.version: str | None = None
        """Of the weights."""
        self.talk: Talk | None = None
        self.cancelled = False

    def left(self) -> int:
        """Tokens that the model has not read."""
        return 0 if self.talk is None else len(self.talk.ids) - len(self.talk.places)

    def take(self, token: int, logprob: float) -> bool:
        """Takes the next token; whether the answer goes on."""
        self.ids.append(token)
        self.logprobs.append(logprob)
        over = self.ends(self.ids)
        if over or len(self.ids) >= self.most:
            self.tell([token], "stop" if over else "length", None)
            return False
        if self.streamed:
            self.tell([token], None, None)
        return not self.cancelled


Tell = Callable[[list[int], str | None, ProviderError | None], None]
Ends = Callable[[Sequence[int]], bool]


class _Change:
    """Something to do between requests."""

    def __init__(self, act: Callable[[], str | None], done: Callable[[ProviderError | None], None]) -> None:
        self.act = act
        self.done = done


class Engine:
    """Runs jobs until it is closed. `model` is a Transformers causal language model in evaluation mode.

    Args:
        model: The model.
        options: Bounds.
        version: Of its weights.
    """

    def __init__(self, model: Any, options: EngineOptions | None = None, version: str | None = None) -> None:
        self._model = model
        self._options = options or EngineOptions()
        self._version = version
        self._kinds = mask_kinds(model.config)
        self._pool = TokenPool(self._options.cache_mib << 20)
        self._waiting: queue.SimpleQueue[Job | _Change | None] = queue.SimpleQueue()
        self._held: list[Job] = []
        self._changes: list[_Change] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, job: Job) -> None:
        """Queues a job; starts the thread with the first."""
        self._put(job)

    def change(self, act: Callable[[], str | None], done: Callable[[ProviderError | None], None]) -> None:
        """Queues a change of the weights: what is under way ends before it, what comes later begins after it.

        Args:
            act: Makes the change on the engine's thread and gives the new version.
            done: Hears that it is made, on that thread, or why it is not.
        """
        self._put(_Change(act, done))

    def _put(self, what: Job | _Change) -> None:
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
        jobs: list[Job] = []
        while not self._closed:
            self._gather(idle=not jobs)
            if self._changes and not jobs:
                self._make_changes()
            if not self._changes:
                jobs += self._admitted(self._options.most_at_once - len(jobs))
            for together in self._passes(jobs):
                self._guarded(together, lambda together=together: self._advance(together))  # type: ignore[misc]
            jobs = [job for job in jobs if job.talk is not None]
        closed = ProviderError("the local model was closed", retryable=False)
        for job in jobs + self._held:
            job.tell([], None, closed)
        for change in self._changes:
            change.done(closed)

    def _gather(self, *, idle: bool) -> None:
        """Takes what waits; an idle engine waits for something, and a moment longer for company."""
        until = time.monotonic()
        if idle and not self._held and not self._changes:
            self._hold(self._waiting.get())
            until = time.monotonic() + self._options.window_s
        while not self._closed and not self._changes:
            try:
                left = until - time.monotonic()
                self._hold(self._waiting.get(timeout=left) if left > 0 else self._waiting.get_nowait())
            except queue.Empty:
                return

    def _hold(self, what: Job | _Change | None) -> None:
        if isinstance(what, _Change):
            self._changes.append(what)
        elif what is not None:
            self._held.append(what)

    def _make_changes(self) -> None:
        """What was held came before the change and is asked of the weights before it only if it had begun."""
        changes, self._changes = self._changes, []
        for change in changes:
            self._pool.clear()
            problem = None
            try:
                with boundary(ProviderError, "changing the local model's weights"):
                    self._version = change.act()
            except ProviderError as exc:
                problem = exc
            change.done(problem)

    def _admitted(self, free: int) -> list[Job]:
        """Held jobs that begin now. One whose beginning another one is about to read waits for that."""
        begun: list[Job] = []
        reading: set[tuple[int, ...]] = set()
        later: list[Job] = []
        for job in self._held:
            if job.cancelled:
                continue
            if len(begun) >= free:
                later.append(job)
                continue
            job.talk = self._pool.begin(job.prompt)
            unread = tuple(job.prompt)
            if job.left() > 1 and unread in reading:
                self._pool.forget(job.talk)
                job.talk = None
                later.append(job)
                continue
            reading.add(unread)
            job.shared, job.version = len(job.talk.places), self._version
            begun.append(job)
        self._held = later
        return begun

    def _passes(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """Who is read together: those with one token to read, then the others by how many they have."""
        passes: list[list[Job]] = []
        for job in sorted(jobs, key=Job.left):
            together = passes[-1] if passes else []
            count = len(together) + 1
            fits = together and job.left() * count <= self._options.most_prefill
            if fits and (job.left() == 1 or together[0].left() > 1):
                together.append(job)
            else:
                passes.append([job])
        return passes

    def _advance(self, jobs: list[Job]) -> None:
        """Reads tokens of these jobs, and gives a next one to each whose conversation is read whole."""
        talks = [job.talk for job in jobs if job.talk is not None]
        longest = max(len(talk.ids) for talk in talks)
        width = max(1, min(max(job.left() for job in jobs), _MASK_CELLS // (longest * len(jobs))))
        logits = self._read(talks, width)
        ready = [position for position, job in enumerate(jobs) if job.left() == 0]
        if not ready:
            return
        going = _drawn(logits[ready], [jobs[position] for position in ready])
        for position, goes_on in zip(ready, going, strict=True):
            job, talk = jobs[position], talks[position]
            if len(job.ids) == 1 and goes_on:
                self._pool.tell(talk)
            talk.ids.append(job.ids[-1])
            if not goes_on:
                talk.ids.pop()  # it was never read
                self._pool.end(talk)
                job.talk = None

    def _read(self, talks: Sequence[Talk], width: int) -> torch.Tensor:
        """Reads up to `width` tokens of each; the logits after the last one, of shape (requests, vocabulary)."""
        import torch

        ids = np.zeros((len(talks), width), dtype=np.int64)
        written, positions = np.zeros_like(ids), np.zeros_like(ids)
        for row, talk in enumerate(talks):
            known = len(talk.places)
            count = min(width, len(talk.ids) - known)
            ids[row, width - count :] = talk.ids[known : known + count]
            written[row, width - count :] = self._pool.grow(talk, count)
            positions[row, width - count :] = np.arange(known, known + count)
        seen = np.zeros((len(talks), max(len(talk.places) for talk in talks)), dtype=np.int64)
        for row, talk in enumerate(talks):
            seen[row, : len(talk.places)] = talk.places
        device = self._model.device
        at = torch.from_numpy(positions).to(device)
        with torch.inference_mode():
            out = self._model(
                input_ids=torch.from_numpy(ids).to(device),
                attention_mask=_masks(self._kinds, at, seen.shape[1], self._model.dtype),
                position_ids=at,
                past_key_values=Reading(self._pool, written, seen, device).cache(),
                use_cache=True,
                logits_to_keep=1,
            )
            return out.logits[:, -1].cpu()

    def _guarded(self, jobs: list[Job], act: Callable[[], None]) -> None:
        """Whatever the model does wrong ends these jobs and no others."""
        try:
            with boundary(ProviderError, "the local model"):
                act()
        except ProviderError as exc:
            for job in jobs:
                if job.talk is not None:
                    self._pool.forget(job.talk)
                    job.talk = None
                    job.tell([], None, exc)


def mask_kinds(config: Any) -> dict[str, int | None]:
    """The kinds of attention that a model has, and how far back each looks (None: to the beginning).

    Raises:
        ProviderError: It has layers that are no such attention.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    window = getattr(text, "sliding_window", None)
    kinds = set(getattr(text, "layer_types", None) or ["sliding_attention" if window else "full_attention"])
    if kinds - {"full_attention", "sliding_attention"}:
        raise ProviderError(
            f"the built-in engine cannot run layers of the kind {', '.join(sorted(kinds))}: serve it with vLLM",
            retryable=False,
        )
    return {kind: window if kind == "sliding_attention" else None for kind in sorted(kinds)}


def _masks(kinds: dict[str, int | None], positions: torch.Tensor, longest: int, dtype: torch.dtype) -> Any:
    """Which tokens each new one sees, as what is added to its scores, of shape (requests, 1, new tokens, all)."""
    import torch

    keys = torch.arange(longest, device=positions.device)
    ahead = positions[:, None, :, None] - keys
    found: dict[str, torch.Tensor] = {}
    for kind, window in kinds.items():
        hidden = ahead < 0 if window is None else (ahead < 0) | (ahead >= window)
        found[kind] = torch.zeros_like(hidden, dtype=dtype).masked_fill_(hidden, torch.finfo(dtype).min)
    return next(iter(found.values())) if len(found) == 1 else found


def _drawn(logits: torch.Tensor, jobs: Sequence[Job]) -> list[bool]:
    """Gives each job its next token from `logits` of shape (jobs, vocabulary); who goes on."""
    going = [False] * len(jobs)
    for how in dict.fromkeys(job.how for job in jobs):
        rows = [row for row, job in enumerate(jobs) if job.how == how]
        log_probs = log_probabilities(logits[rows], how)
        points = [_point(jobs[row]) for row in rows]
        tokens = pick(log_probs, how, points)
        for position, row in enumerate(rows):
            job = jobs[row]
            if len(job.ids) < len(job.steered):
                tokens[position] = job.steered[len(job.ids)]
        chosen = log_probs[range(len(rows)), tokens].float().tolist()
        for row, token, logprob in zip(rows, tokens, chosen, strict=True):
            going[row] = jobs[row].take(token, logprob)
    return going


def _point(job: Job) -> float:
    import torch

    return float(torch.rand(1, generator=job.generator, dtype=torch.float64).item())
