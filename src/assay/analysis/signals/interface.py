"""The protocol of plugins in the group `assay.signals`, the built-in set, and the table that sets count over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from assay.records import Step

from .columns import signals
from .names import SIGNALS


@runtime_checkable
class SignalSet(Protocol):
    """A set of signals, found by entry point `assay.signals`. Pure."""

    name: ClassVar[str]
    signals: ClassVar[tuple[str, ...]]
    """Names of its columns."""

    def counts(self, steps: Any) -> Any:
        """Counts its signals.

        Args:
            steps: Arrow table as `assay.analysis.signals.signals` takes it: a row a step, chains together and in order.

        Returns:
            Arrow table with a row a trajectory in the order of their first steps: `chain`, and a column of int64 for
            each of `signals`.
        """
        ...


class TriageSignals:
    """The 25 published signals."""

    name: ClassVar[str] = "triage"
    signals: ClassVar[tuple[str, ...]] = tuple(signal.name for signal in SIGNALS)

    def counts(self, steps: Any) -> Any:
        return signals(steps).select(["chain", *self.signals])


class StepsOfChain(Protocol):
    """The part of a trajectory that signals are counted from."""

    @property
    def chain(self) -> str: ...
    @property
    def steps(self) -> Sequence[Step]: ...


def steps_table(trajectories: Iterable[StepsOfChain]) -> Any:
    """Returns steps as in the store's table `steps`, with the columns that signals need."""
    import pyarrow as pa

    rows: dict[str, list[Any]] = {"chain": [], "actor": [], "message": [], "tools": [], "arguments": [], "outputs": []}
    for trajectory in trajectories:
        for step in trajectory.steps:
            rows["chain"].append(trajectory.chain)
            rows["actor"].append(step.actor)
            rows["message"].append(step.message)
            rows["tools"].append([call.name for call in step.tool_calls])
            rows["arguments"].append([call.arguments for call in step.tool_calls])
            rows["outputs"].append([seen.content for seen in step.observations])
    texts = pa.list_(pa.string())
    kinds = {"tools": texts, "arguments": texts, "outputs": texts}
    return pa.table({name: pa.array(column, kinds.get(name, pa.string())) for name, column in rows.items()})
