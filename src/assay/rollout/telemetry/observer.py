"""Observers of trials: the protocol that metrics and traces implement.

Called on the event loop as things happen. An observer must not block and must not raise: a run never depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from assay.records import ModelCall, Step, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

Phase = Literal["open", "agent", "settle", "judge", "commit"]


class TrialInfo(NamedTuple):
    """The trial that is observed."""

    run: str
    attempt: str
    chain: str
    task: str
    agent: str
    model: str | None
    seed: int
    number: int
    retry: int


class TrialEnding(NamedTuple):
    """The end of a trial whose chain is closed."""

    outcome: str | None
    stopped: str | None
    broke: str | None
    """The boundary that failed."""
    is_retried: bool
    verdicts: Sequence[Verdict] = ()


class TrialObserver(Protocol):
    """Observes one trial."""

    def phase(self, name: Phase) -> AbstractContextManager[None]:
        """Surrounds a phase; `agent`, `settle` and `judge` occur once for each step of a task with steps."""
        ...

    def on_call(self, call: ModelCall) -> None:
        """A model call was recorded."""
        ...

    def on_step(self, step: Step) -> None:
        """A turn was recorded."""
        ...

    def on_execution(self, data: Mapping[str, object]) -> None:
        """A command ended just now; `data` is its audit evidence."""
        ...

    def on_end(self, ending: TrialEnding | None) -> None:
        """The trial ended; None if it was interrupted. Called exactly once."""
        ...


class RunObserver(Protocol):
    """Observes the trials of a run."""

    def begin_trial(self, trial: TrialInfo) -> TrialObserver:
        """A trial begins."""
        ...

    def on_upload(self, chain: str, started: float, ending: str) -> None:
        """A node committed a trial to the place just now, after waiting since `started` (Unix time)."""
        ...


class _SilentObserver:
    """Observes nothing."""

    def phase(self, name: Phase) -> AbstractContextManager[None]:
        return _NOTHING

    def on_call(self, call: ModelCall) -> None:
        """Does nothing."""

    def on_step(self, step: Step) -> None:
        """Does nothing."""

    def on_execution(self, data: Mapping[str, object]) -> None:
        """Does nothing."""

    def on_end(self, ending: TrialEnding | None) -> None:
        """Does nothing."""


_NOTHING: AbstractContextManager[None] = nullcontext()
SILENT: TrialObserver = _SilentObserver()


def combine_observers(observers: Sequence[RunObserver]) -> RunObserver | None:
    """Returns one observer in place of several; None in place of none."""
    if len(observers) < 2:
        return next(iter(observers), None)
    return _CombinedRunObserver(observers)


class _CombinedRunObserver:
    def __init__(self, observers: Sequence[RunObserver]) -> None:
        self._observers = observers

    def begin_trial(self, trial: TrialInfo) -> TrialObserver:
        return _CombinedTrialObserver([one.begin_trial(trial) for one in self._observers])

    def on_upload(self, chain: str, started: float, ending: str) -> None:
        for one in self._observers:
            one.on_upload(chain, started, ending)


class _CombinedTrialObserver:
    def __init__(self, observers: Sequence[TrialObserver]) -> None:
        self._observers = observers

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        with ExitStack() as stack:
            for one in self._observers:
                stack.enter_context(one.phase(name))
            yield

    def on_call(self, call: ModelCall) -> None:
        for one in self._observers:
            one.on_call(call)

    def on_step(self, step: Step) -> None:
        for one in self._observers:
            one.on_step(step)

    def on_execution(self, data: Mapping[str, object]) -> None:
        for one in self._observers:
            one.on_execution(data)

    def on_end(self, ending: TrialEnding | None) -> None:
        for one in self._observers:
            one.on_end(ending)
