"""Common parts of running an experiment: its command line, a store, and runs that are made, resumed or read."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from assay.learning.trainer.rollouts import complete_run
from assay.rollout import RunConfig
from assay.settings import Settings

from ._results import Recording

__all__ = ["make_parser", "open_recording", "open_store", "run_outcomes"]


def make_parser(
    doc: str | None,
    parts: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    *,
    store: bool = True,
    record: bool = True,
) -> argparse.ArgumentParser:
    """Returns a parser with what an experiment has of `PART`, `--seeds`, `--store` and `--record`.

    Args:
        doc: The module's docstring.
        parts: Parts of which one is chosen.
        seeds: Seeds of the plan, the default of `--seeds`; empty where other options decide them. None: no such option.
        store: The experiment makes runs.
        record: It has a committed result.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if parts:
        parser.add_argument("part", choices=list(parts))
    if seeds is not None:
        parser.add_argument("--seeds", type=int, nargs="+", default=list(seeds), help="default: those of the plan")
    if store:
        parser.add_argument("--store", type=Path, help="where the runs are kept; default: a temporary folder")
    if record:
        parser.add_argument("--record", action="store_true", help="writes experiments/results")
    return parser


@contextmanager
def open_store(folder: Path | None) -> Iterator[Settings]:
    """Yields settings whose store is `folder`, or a temporary one."""
    with tempfile.TemporaryDirectory() as scratch:
        yield msgspec.structs.replace(Settings.from_environment(), store=folder or Path(scratch))


def open_recording(
    name: str, words: str, given: argparse.Namespace, plan: str | None, seeds: Sequence[int]
) -> Recording:
    """Returns the recording of a command.

    Args:
        name: Name of the file in `experiments/results`.
        words: Module and arguments of the command.
        given: Parsed by `make_parser`.
        plan: What is fixed before the run.
        seeds: Seeds of the plan; `--seeds` chooses among them.
    """
    command = f"python -m experiments.{words} --record"
    chosen = getattr(given, "seeds", None) or seeds
    return Recording(name, command, chosen, plan or "", enabled=given.record, planned=seeds)


async def run_outcomes(config: RunConfig, settings: Settings) -> dict[str, float]:
    """Completes a run of one attempt a task; returns by task, in their order, 1 for a pass and 0 for all else."""
    rows = sorted(await complete_run(config, settings), key=lambda row: row.task)
    return {row.task: float(row.outcome == "pass") for row in rows}
