"""Evidence of a check in the attempts that it judged, one typed row each, for tables of `assay stats`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from assay.store import RunStore

Row = TypeVar("Row", bound=msgspec.Struct)


def read_check_evidence(root: Path, runs: Sequence[str], check: str, kind: type[Row]) -> tuple[Row, ...]:
    """Returns the evidence that a check added to each attempt that it judged, with the attempt's agent and model.

    Args:
        root: The store.
        runs: The runs.
        check: Name of the check, which is also the kind of its evidence.
        kind: The row, with `agent` and `model` beside the fields of the evidence. Other evidence is left out: a run
            that was imported may have any.
    """
    found = []
    for run in runs:
        with RunStore.open(root, run) as store:
            judged = sorted({verdict.chain for verdict in store.judged() if verdict.check == check})
            for trajectory in map(store.trajectory, judged):
                first = next((item.data for item in trajectory.evidence if item.kind == check), None)
                with suppress(msgspec.ValidationError):
                    data = {**(first or {}), "agent": trajectory.agent, "model": trajectory.model}
                    found.append(msgspec.convert(data, kind))
    return tuple(found)
