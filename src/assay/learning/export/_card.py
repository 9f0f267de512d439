"""The card of a data set: where it comes from, how sound its verifiers are, what it may be used for, and how it counts.

Everything on it is read from the store; what nobody looked at is said to be so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assay import __version__
from assay.rollout.admitted import StoredCertificate, find_certificates
from assay.store import RunStore, heads_digest

from .interface import Source

__all__ = ["Card", "Shown", "card"]

_MOST_NAMES = 20
_MOST_LETTERS = 80


class Shown(NamedTuple):
    """What the card counts of one attempt."""

    task: str
    task_digest: str
    agent: str
    model: str | None
    outcome: str | None
    integrity: str | None
    doubted: bool


class Card(NamedTuple):
    """What is in the data set."""

    attempts: Sequence[Shown]
    conversations: int
    rows: int
    split: str
    licence: str | None


def card(source: Source, content: Card) -> str:
    """The card as Markdown with a YAML head."""
    parts = [
        _head(content),
        ["# Verified agent attempts", "", _summary(content), ""],
        _verdicts(content.attempts),
        _soundness(source, content.attempts),
        _provenance(source, content.attempts),
        _use(content),
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(content: Card) -> list[str]:
    """Nothing of it is a stranger's word: split and licence were checked."""
    lines = ["---", f"license: {content.licence or 'unknown'}", "tags:", "- agents", "- trajectories", "- assay"]
    lines += ["configs:", "- config_name: attempts", "  default: true", "  data_files:"]
    lines += [f"  - split: {content.split}", f"    path: data/{content.split}-*.parquet"]
    if content.rows:
        lines += ["- config_name: rows", "  data_files:"]
        lines += [f"  - split: {content.split}", f"    path: rows/{content.split}-*.parquet"]
    return [*lines, "---", ""]


def _summary(content: Card) -> str:
    tasks = len({shown.task_digest for shown in content.attempts})
    rows = f", and {content.rows:,} training rows with tokens" if content.rows else ""
    return (
        f"{len(content.attempts):,} attempts at {tasks:,} tasks as {content.conversations:,} conversations{rows}. "
        "Each attempt was judged from the state that it left, not from what was said."
    )


def _verdicts(attempts: Sequence[Shown]) -> list[str]:
    counts = Counter((_outcome(shown), shown.integrity or "nobody looked") for shown in attempts)
    lines = ["## Counts by verdict", "", "| outcome | integrity | attempts |", "|---|---|---|"]
    lines += [f"| {outcome} | {integrity} | {count:,} |" for (outcome, integrity), count in sorted(counts.items())]
    doubted = sum(shown.doubted for shown in attempts)
    why = "have no `outcome`: what they claim is in `claimed_outcome`, and what speaks against it in `doubt`."
    return [*lines, "", f"{doubted:,} passes are doubted; they {why}" if doubted else "No pass is doubted.", ""]


def _outcome(shown: Shown) -> str:
    return "pass, doubted" if shown.doubted else shown.outcome or "not judged"


def _soundness(source: Source, attempts: Sequence[Shown]) -> list[str]:
    """What is known of the verifiers themselves."""
    digests = {shown.task_digest for shown in attempts}
    held = find_certificates(source.settings.store, digests)
    lines = ["## Soundness of the verifiers", ""]
    without = len(digests) - len(held)
    if without:
        lines += [f"The verifiers of {without:,} of {len(digests):,} tasks were never tested: a pass says no more "
                  "there than that the check was passed.", ""]  # fmt: skip
    if not held:
        return lines
    admitted = sum(_is_admitted(one) for one in held.values())
    findings = Counter[str]()
    for one in held.values():
        findings.update(one.certificate.findings)
    shown = ", ".join(f"{count:,} {severity}" for severity, count in sorted(findings.items()) if count) or "none"
    lines += [f"- tested with a battery of attempts (oracle, doing nothing, cheats, mutants): {len(held):,} tasks"]
    lines += [f"- admitted, that is, no hole was found and the reference solution always passed: {admitted:,}"]
    lines += [f"- findings by severity: {_code(shown)}"]
    quick = sum(one.certificate.quick for one in held.values())
    return [*lines, *([f"- tested with the quick battery alone: {quick:,}"] if quick else []), ""]


def _is_admitted(held: StoredCertificate) -> bool:
    return bool(held.certificate.admitted) and all(held.certificate.admitted.values())


def _provenance(source: Source, attempts: Sequence[Shown]) -> list[str]:
    with RunStore.open(source.settings.store, source.run) as store:
        rows, created = store.attempts(), store.manifest().get("created")
    heads = heads_digest((row.chain, row.head, row.length) for row in rows)
    lines = ["## Provenance", "", "| | |", "|---|---|", f"| run | {_code(source.run)} |"]
    lines += [f"| begun | {_time(created)} |", f"| written by | Assay {__version__} |"]
    lines += [f"| agents | {_names(shown.agent for shown in attempts)} |"]
    lines += [f"| models | {_names(shown.model for shown in attempts if shown.model)} |"]
    lines += [f"| tasks | {_names(shown.task for shown in attempts)} |"]
    lines += [f"| digest of all chains | {_code(heads)} |", ""]
    return [*lines, "Each row names its chain and the chain's head: with the run's store, `assay verify --chain` shows "
            "that nothing of it was changed.", ""]  # fmt: skip


def _use(content: Card) -> list[str]:
    licence = f"`{content.licence}`" if content.licence else "None was named. Ask whoever published this."
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
    """A stranger's words, harmless in a table of Markdown."""
    plain = "".join(letter if letter.isprintable() and letter not in "`|<>\\" else "_" for letter in text)
    return f"`{plain[:_MOST_LETTERS]}`"


def _time(seconds: object) -> str:
    from datetime import UTC, datetime

    known = isinstance(seconds, int | float) and 0 <= seconds < 1e11
    return datetime.fromtimestamp(float(seconds), UTC).isoformat(timespec="seconds") if known else "not known"  # type: ignore[arg-type]
