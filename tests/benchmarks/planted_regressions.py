"""Regressions that the gate must notice: `python -m tests.benchmarks.planted_regressions NAME FOLDER SCENARIO...`."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

from assay.rollout.recording.recorder import Recorder
from assay.store import database
from benchmarks import _gate_scenarios

KEPT: list[Any] = []


def nothing() -> None:
    """Plants nothing."""


def copies_each_request() -> None:
    """Every model call copies the whole request once more and holds the copy."""
    end_call = Recorder.end_call

    async def slower(self: Recorder, exchange: Any, *more: Any, **named: Any) -> Any:
        KEPT.append(copy.deepcopy(exchange.request.messages))
        return await end_call(self, exchange, *more, **named)

    Recorder.end_call = slower  # type: ignore[method-assign]


def commits_each_call_twice() -> None:
    """Every model call commits once more."""
    end_call = Recorder.end_call

    async def slower(self: Recorder, exchange: Any, *more: Any, **named: Any) -> Any:
        made = await end_call(self, exchange, *more, **named)
        self.note("planted", {})
        await self.commit()
        return made

    Recorder.end_call = slower  # type: ignore[method-assign]


def reads_the_record_back() -> None:
    """A rule reads the attempt back from the store at every model call."""
    end_call = Recorder.end_call

    async def slower(self: Recorder, exchange: Any, *more: Any, **named: Any) -> Any:
        made = await end_call(self, exchange, *more, **named)
        self.flush()
        KEPT.append(len(self.store.trajectory(self.chain).steps))
        return made

    Recorder.end_call = slower  # type: ignore[method-assign]


def lists_the_run_each_step() -> None:
    """Every model call lists all attempts of the run."""
    end_call = Recorder.end_call

    async def slower(self: Recorder, exchange: Any, *more: Any, **named: Any) -> Any:
        KEPT.append(len(self.store.attempts()))
        return await end_call(self, exchange, *more, **named)

    Recorder.end_call = slower  # type: ignore[method-assign]


def loses_the_index() -> None:
    """Events are found without the index over chains."""
    script = database._SCHEMA.replace("CREATE UNIQUE INDEX events_by_chain ON events (chain, idx);", "")
    assert script != database._SCHEMA
    database._SCHEMA = script


PLANTED: dict[str, Callable[[], None]] = {
    planted.__name__: planted
    for planted in (
        nothing,
        copies_each_request,
        commits_each_call_twice,
        reads_the_record_back,
        lists_the_run_each_step,
        loses_the_index,
    )
}

if __name__ == "__main__":
    PLANTED[sys.argv[1]]()
    _gate_scenarios.main(sys.argv[2:])
