"""Data set cards: provenance, verifier soundness, licence and counts.

Everything on it is read from the store; unknown values are marked as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assay import __version__
from assay.learning.reading import TaskSource
from assay.rollout.admitted import StoredCertificate, find_certificates
from assay.store import RunStore, heads_digest

from .interface import ExportSource

_MOST_NAMES = 20
_MOST_LETTERS = 80
_MOST_SOURCES = 50


class AttemptSummary(NamedTuple):
    """An attempt's fields for the card."""

    task: str
    task_digest: str
    agent: str
    model: str | None
    outcome: str | None
    integrity: str | None
    doubted: bool
    source: TaskSource = TaskSource()
    rows: int = 0
    """Training rows with tokens."""


class DatasetSummary(NamedTuple):
    """Contents of a data set."""

    attempts: Sequence[AttemptSummary]
    conversations: int
    rows: int
    split: str
    licence: str | None


def render_card(source: ExportSource, content: DatasetSummary) -> str:
    """Renders the card as Markdown with a YAML head."""
    parts = [
        _head(content),
        ["# Verified agent attempts", "", _summary(content), ""],
        _verdicts(content.attempts),
        _soundness(source, content.attempts),
        _provenance(source, content.attempts),
        _sources(content.attempts),
        _use(content),
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(content: DatasetSummary) -> list[str]:
    """Returns the YAML head; split and licence are already validated."""
    lines = ["---", f"license: {content.licence or 'unknown'}", "tags:", "- agents", "- trajectories", "- assay"]
    lines += ["configs:", "- config_name: attempts", "  default: true", "  data_files:"]
    lines += [f"  - split: {content.split}", f"    path: data/{content.split}-*.parquet"]
    if content.rows:
        lines += ["- config_name: rows", "  data_files:"]
        lines += [f"  - split: {content.split}", f"    path: rows/{content.split}-*.parquet"]
    return [*lines, "---", ""]


def _summary(content: DatasetSummary) -> str:
    tasks = len({attempt.task_digest for attempt in content.attempts})
    rows = f", and {content.rows:,} training rows with tokens" if content.rows else ""
    return (
        f"{len(content.attempts):,} attempts at {tasks:,} tasks as {content.conversations:,} conversations{rows}. "
        "Each attempt was judged from the state that it left, not from what was said."
    )


def _verdicts(attempts: Sequence[AttemptSummary]) -> list[str]:
    counts = Counter((_outcome(attempt), attempt.integrity or "not judged") for attempt in attempts)
    lines = ["## Counts by verdict", "", "| outcome | integrity | attempts |", "|---|---|---|"]
    lines += [f"| {outcome} | {integrity} | {count:,} |" for (outcome, integrity), count in sorted(counts.items())]
    doubted = sum(attempt.doubted for attempt in attempts)
    why = "have no `outcome`: what they claim is in `claimed_outcome`, and what speaks against it in `doubt`."
    return [*lines, "", f"{doubted:,} passes are doubted; they {why}" if doubted else "No pass is doubted.", ""]


def _outcome(attempt: AttemptSummary) -> str:
    return "pass, doubted" if attempt.doubted else attempt.outcome or "not judged"


def _soundness(source: ExportSource, attempts: Sequence[AttemptSummary]) -> list[str]:
    digests = {attempt.task_digest for attempt in attempts}
    certified = find_certificates(source.settings.store, digests)
    lines = ["## Soundness of the verifiers", ""]
    without = len(digests) - len(certified)
    if without:
        lines += [f"The verifiers of {without:,} of {len(digests):,} tasks were never tested: a pass says no more "
                  "there than that the check was passed.", ""]  # fmt: skip
    if not certified:
        return lines
    admitted = sum(_is_admitted(one) for one in certified.values())
    findings = Counter[str]()
    for one in certified.values():
        findings.update(one.certificate.findings)
    attempt = ", ".join(f"{count:,} {severity}" for severity, count in sorted(findings.items()) if count) or "none"
    lines += [f"- tested with a battery of attempts (oracle, doing nothing, cheats, mutants): {len(certified):,} tasks"]
    lines += [f"- admitted, that is, no hole was found and the reference solution always passed: {admitted:,}"]
    lines += [f"- findings by severity: {_code(attempt)}"]
    quick = sum(one.certificate.quick for one in certified.values())
    return [*lines, *([f"- tested with the quick battery alone: {quick:,}"] if quick else []), ""]


def _is_admitted(certified: StoredCertificate) -> bool:
    return bool(certified.certificate.admitted) and all(certified.certificate.admitted.values())


def _provenance(source: ExportSource, attempts: Sequence[AttemptSummary]) -> list[str]:
    with RunStore.open(source.settings.store, source.run) as store:
        rows, created = store.attempts(), store.manifest().get("created")
    heads = heads_digest((row.chain, row.head, row.length) for row in rows)
    lines = ["## Provenance", "", "| | |", "|---|---|", f"| run | {_code(source.run)} |"]
    lines += [f"| begun | {_time(created)} |", f"| written by | Assay {__version__} |"]
    lines += [f"| agents | {_names(attempt.agent for attempt in attempts)} |"]
    lines += [f"| models | {_names(attempt.model for attempt in attempts if attempt.model)} |"]
    lines += [f"| tasks | {_names(attempt.task for attempt in attempts)} |"]
    lines += [f"| digest of all chains | {_code(heads)} |", ""]
    return [*lines, "Each row names its chain and the chain's head: with the run's store, `assay verify --chain` shows "
            "that nothing of it was changed.", ""]  # fmt: skip


def _sources(attempts: Sequence[AttemptSummary]) -> list[str]:
    """Returns the table of what tasks were made from, most attempts first; the last row sums up the rest."""
    groups: dict[TaskSource, list[AttemptSummary]] = {}
    for attempt in attempts:
        groups.setdefault(attempt.source, []).append(attempt)
    ordered = sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    lines = ["## Sources of the tasks", "", "| source | licence | tasks | attempts | rows |", "|---|---|---|---|---|"]
    for origin, group in ordered[:_MOST_SOURCES]:
        lines.append(f"| {_code(origin.source)} | {_code(origin.licence)} | {_size(group)} |")
    rest = [attempt for _, group in ordered[_MOST_SOURCES:] for attempt in group]
    if rest:
        lines.append(f"| {len(ordered) - _MOST_SOURCES:,} more sources | | {_size(rest)} |")
    return [*lines, "", "A licence is what the source declares of itself; `not declared` means unknown, not free.", ""]


def _size(attempts: Sequence[AttemptSummary]) -> str:
    tasks = len({attempt.task_digest for attempt in attempts})
    return f"{tasks:,} | {len(attempts):,} | {sum(attempt.rows for attempt in attempts):,}"


def _use(content: DatasetSummary) -> list[str]:
    licence = f"`{content.licence}`" if content.licence else "Not specified. Ask the publisher."
    return ["## Licence", "", licence, "", "## Use", "", "```python", "from datasets import load_dataset", "",
            f'attempts = load_dataset(PATH, "attempts", split="{content.split}")',
            'passes = attempts.filter(lambda row: row["outcome"] == "pass" and row["integrity"] == "pass")', "```", "",
            "`messages` and `tools` are JSON columns (datasets 4.7 or newer): arguments of calls come back as they "
            "were written. `trained` marks the messages that no other row of the attempt holds."]  # fmt: skip


def _names(names: Iterable[str]) -> str:
    known = sorted(set(names))
    more = f" and {len(known) - _MOST_NAMES:,} more" if len(known) > _MOST_NAMES else ""
    return (", ".join(map(_code, known[:_MOST_NAMES])) or "none") + more


def _code(text: str) -> str:
    """Returns untrusted text as code, safe in a Markdown table."""
    plain = "".join(letter if letter.isprintable() and letter not in "`|<>\\" else "_" for letter in text)
    return f"`{plain[:_MOST_LETTERS]}`"


def _time(seconds: object) -> str:
    from datetime import UTC, datetime

    known = isinstance(seconds, int | float) and 0 <= seconds < 1e11
    return datetime.fromtimestamp(float(seconds), UTC).isoformat(timespec="seconds") if known else "not known"  # type: ignore[arg-type]
