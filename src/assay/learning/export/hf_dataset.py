"""Hugging Face dataset: conversations with verdicts, training rows where tokens are known, and a card.

A doubted pass has no `outcome`: its claim is in `claimed_outcome`, and the reason in `doubt`. Names of tasks, agents
and models are untrusted: the card shows them as code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.errors import UserError
from assay.formats.shared.output_files import outcome_verdict
from assay.learning.row_files import write_rows
from assay.learning.rows import TrainingRow
from assay.records import Separation, Trajectory
from assay.verdicts import current_verdicts_of, trust_of

from ._card import AttemptSummary, DatasetSummary, render_card
from ._messages import chat_template_messages
from ._tables import JSON, TEXT, write_table
from .interface import ExportSource, ExportTarget

_SPLIT = re.compile(r"\w+(\.\w+)*", re.ASCII)
_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}")
_TEXTS = ("run", "chain", "head", "attempt", "task", "task_digest", "agent", "model", "outcome", "claimed_outcome",
          "integrity", "doubt", "separation", "ended", "stopped", "broke", "branch")  # fmt: skip


class HfDataset(ExportTarget):
    """The `hf-dataset` target."""

    name = "hf-dataset"
    title = "Hugging Face dataset with a card (a folder)"
    include = "all"
    holds = frozenset(TrainingRow.__struct_fields__)

    def write(self, source: ExportSource, out: Path) -> int:
        split, licence = source.config.split, source.config.licence
        _require(_SPLIT, split, "--split", "a word of letters, digits and underscores, as `train`")
        if licence is not None:
            _require(_LICENCE, licence, "--licence", "an identifier as Hugging Face has it, as `apache-2.0`")
        (out / "data").mkdir(parents=True)
        (out / "rows").mkdir()
        summaries: dict[str, AttemptSummary] = {}
        name = f"{split}-00000-of-00001.parquet"
        written = write_table(self._conversations(source, summaries), _columns(), out / "data" / name)
        per_chain: Counter[str] = Counter()
        rows = write_rows(_counted(source.rows(), per_chain), out / "rows" / name)
        if rows == 0:
            (out / "rows" / name).unlink()
            (out / "rows").rmdir()
        attempts = [one._replace(rows=per_chain[chain]) for chain, one in summaries.items()]
        text = render_card(source, DatasetSummary(attempts, written, rows, split, licence))
        (out / "README.md").write_text(text, encoding="utf-8")
        return written

    def _conversations(self, source: ExportSource, summaries: dict[str, AttemptSummary]) -> Iterator[dict[str, Any]]:
        for trajectory, line in source.conversations():
            about = _about(trajectory, source.config.require)
            summaries[trajectory.chain] = AttemptSummary(
                trajectory.task, trajectory.task_digest, trajectory.agent, trajectory.model, about["outcome"],
                about["integrity"], about["doubt"] is not None, source.task_source(trajectory),
            )  # fmt: skip
            yield about | {
                "branch": line.branch,
                "messages": chat_template_messages(line.messages),
                "tools": line.tools or None,
                "trained": line.own,
            }


def _counted(rows: Iterator[TrainingRow], per_chain: Counter[str]) -> Iterator[TrainingRow]:
    """Yields the rows and counts them by chain."""
    for row in rows:
        per_chain[row.chain] += 1
        yield row


def _columns() -> dict[str, Any]:
    import pyarrow as pa

    kinds = {"score": pa.float64(), "number": pa.int64(), "trained": pa.list_(pa.bool_())}
    return {"messages": JSON, "tools": JSON, **dict.fromkeys(_TEXTS, TEXT), **kinds}


def _about(trajectory: Trajectory, require: Separation) -> dict[str, Any]:
    verdict, finished = outcome_verdict(trajectory), trajectory.finished
    trust = trust_of(trajectory, require=require)
    why = trust.doubt
    return {
        "run": trajectory.run,
        "chain": trajectory.chain,
        "head": trajectory.head,
        "attempt": trajectory.attempt,
        "number": trajectory.number,
        "task": trajectory.task,
        "task_digest": trajectory.task_digest,
        "agent": trajectory.agent,
        "model": trajectory.model,
        "outcome": None if why is not None else trajectory.outcome,
        "claimed_outcome": trajectory.outcome if why is not None else None,
        "score": verdict.score if verdict is not None and why is None else None,
        "integrity": current_verdicts_of(trajectory).integrity,
        "doubt": why,
        "separation": trust.separation,
        "ended": finished.ended if finished else None,
        "stopped": finished.stopped if finished else None,
        "broke": finished.broke if finished else None,
    }


def _require(pattern: re.Pattern[str], value: str, option: str, expected: str) -> None:
    if not pattern.fullmatch(value):
        raise UserError(f"{option} {value!r}: expected {expected}")
