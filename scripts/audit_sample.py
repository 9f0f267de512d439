"""Draws the findings of docs/audit.md again from real recorded runs, and writes that page from its words
(docs/audit.in.txt) and the judgements kept in docs/audit.json.

    .venv/bin/python scripts/audit_sample.py ../shared/data                  # what is drawn, as JSON
    .venv/bin/python scripts/audit_sample.py ../shared/data --write          # docs/audit.md again
    .venv/bin/python scripts/audit_sample.py ../shared/data --adversaries STORE RUN   # with a run of `assay admit`

The split was fixed before any rule was tuned: a trajectory belongs to `tune` where the first byte of the BLAKE3 of
`file/key` is even, else to `judge`. Findings are drawn from `judge` first.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.analysis import consistency, integrity
from assay.analysis.actions import actions_of
from assay.analysis.interface import Finding
from assay.analysis.quotes import quote_holds
from assay.analysis.subject import Subject, apply_rules
from assay.errors import UserError
from assay.formats import registry
from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.records import GENESIS, Event, digest_bytes
from assay.statistics import wilson
from assay.store import RunStore
from assay.store.assemble import assemble

ROOT = Path(__file__).resolve().parent.parent
SEED, EACH = 20261121, 10
FAMILIES: dict[str, tuple[str, ...]] = {
    "future history and leaks": (
        "future-history", "history-fetched", "verifier-tests-read", "solution-read", "reward-read", "answers-hunted",
        "processes-read", "benchmark-searched", "upstream-fetched", "sandbox-escape",
    ),
    "tampering and tests": (
        "tests-weakened", "tests-edited", "tests-removed", "harness-hooked", "process-taken-over", "reward-forged",
        "late-writer", "artifact-linked", "resources-exhausted", "tests-detected", "always-equal", "answers-hard-coded",
    ),
    "counts": (
        "reward-without-tests", "passed-fewer-than-counted", "counts-disagree", "patch-not-applied",
        "verdict-against-reward",
    ),
    "claims and record": (
        "success-claimed-failed", "tests-claimed-unrun", "tests-claimed-failing", "command-claimed-unexecuted",
        "file-claimed-absent", "call-never-executed", "output-differs", "verifier-ran-agent-code", "steps-missing",
        "result-without-call", "call-without-result", "model-call-missing",
    ),
}  # fmt: skip


class Item(NamedTuple):
    """A finding to be read."""

    family: str
    rule: str
    severity: str
    reach: str | None
    half: str
    where: str
    """`file | key`."""
    steps: tuple[int, ...]
    summary: str

    @property
    def id(self) -> str:
        """What names it in docs/audit.json."""
        return f"{self.rule} @ {self.where}"


def subjects(data: Path, folder: str = "") -> Iterator[Subject]:
    """Yields every trajectory that a format reads in a folder of the data, file by file."""
    kept: dict[str, bytes] = {}

    def keep(content: bytes) -> str:
        digest = digest_bytes(content)
        kept[digest] = content
        return digest

    known = registry.load_formats()
    for path in sorted((data / folder).rglob("*")):
        if not path.is_file() or len(takes := registry.matching_formats(path, known)) != 1:
            continue
        kept.clear()
        texts = {}
        try:
            for imported in takes[0].read(path, ImportContext(keep, lambda _: None)):
                texts = {digest: content.decode("utf-8", "replace") for digest, content in kept.items()}
                yield _subject(imported, str(path.relative_to(data)), texts)
        except UserError as exc:
            sys.stderr.write(f"{path.name}: {exc}\n")


def _subject(imported: ImportedTrajectory, file: str, texts: dict[str, str]) -> Subject:
    started = msgspec.structs.replace(imported.started, run=file, attempt=imported.key)
    bodies = (started, *imported.bodies)
    trajectory = assemble([Event(imported.key, n, GENESIS, body, "") for n, body in enumerate(bodies)])
    return Subject(trajectory, actions_of(trajectory), texts.get)


def half_of(subject: Subject) -> str:
    """`tune` or `judge`."""
    name = f"{subject.trajectory.run}/{subject.trajectory.attempt}"
    return "judge" if int(digest_bytes(name.encode())[7:9], 16) % 2 else "tune"


def items(subject: Subject) -> Iterator[tuple[Item, Finding]]:
    """Findings of all rules, with the family that they are read in."""
    family = {rule: name for name, rules in FAMILIES.items() for rule in rules}
    where = f"{subject.trajectory.run} | {subject.trajectory.attempt}"
    for one in apply_rules((*consistency.RULES, *integrity.RULES), subject):
        if not all(quote_holds(subject.trajectory, quote, subject.texts) for quote in one.quotes):
            raise AssertionError(f"{one.rule} at {where} quotes what does not stand there")
        yield (
            Item(family[one.rule], one.rule, one.severity, one.reach, half_of(subject), where, one.steps, one.summary),
            one,
        )


def drawn(given: Sequence[Item]) -> list[Item]:
    """At most ten of each family: of the half that rules were not tuned on first, in an order drawn from the seed."""
    chosen: list[Item] = []
    for family in FAMILIES:
        its = sorted((item for item in given if item.family == family), key=lambda item: item.id)
        random.Random(SEED).shuffle(its)
        its.sort(key=lambda item: item.half != "judge")
        chosen += its[:EACH]
    return chosen


def adversaries(store: Path, run: str, wanted: int) -> list[Item]:
    """Findings of the family of tampering in recorded attempts of adversaries, drawn from the seed."""
    found_there: list[Item] = []
    with RunStore.open(store, run) as opened:
        rows = [row for row in opened.attempts() if ":cheat" in row.chain or "@cheat." in row.chain]
        for row in random.Random(SEED).sample(sorted(rows, key=lambda row: row.chain), 40):
            trajectory = opened.trajectory(row.chain)
            subject = Subject(trajectory, actions_of(trajectory), lambda _: None)
            its = [item for item, _ in items(subject) if item.family == "tampering and tests"]
            found_there += its[:1]
    return [
        item._replace(half="adversaries", where=f"admission | {item.where.split(' | ')[1]}") for item in found_there
    ][:wanted]


def shares(read: Sequence[tuple[Item, dict[str, Any]]]) -> list[str]:
    """The table of confirmed shares."""
    lines = ["| family | read | confirmed | share | 95% interval (Wilson) |", "|---|---|---|---|---|"]
    for name in (*FAMILIES, "all"):
        its = [judged["confirmed"] for item, judged in read if name in ("all", item.family)]
        low, high = wilson(sum(its), len(its))
        lines.append(f"| {name} | {len(its)} | {sum(its)} | {sum(its) / len(its):.0%} | {low:.2f} to {high:.2f} |")
    return lines


def listed(read: Sequence[tuple[Item, dict[str, Any]]]) -> list[str]:
    """The items, family by family."""
    lines: list[str] = []
    for family in FAMILIES:
        lines += ["", f"### {family[0].upper()}{family[1:]}", ""]
        lines += ["| finding | where | steps | judged | why |", "|---|---|---|---|---|"]
        for item, judged in ((one, judged) for one, judged in read if one.family == family):
            steps = ", ".join(map(str, item.steps[:6])) or "-"
            said = "confirmed" if judged["confirmed"] else "**refuted**"
            grade = f"{item.severity}, {item.reach}" if item.reach else item.severity
            where = f"`{item.where.replace(' | ', '` `')}` ({item.half})"
            why = judged["why"].replace("|", "\\|")
            lines.append(f"| {item.rule} ({grade}) | {where} | {steps} | {said} | {why} |")
    return lines


def page(chosen: Sequence[Item], counts: Counter[tuple[str, str]], kept: dict[str, Any]) -> str:
    """docs/audit.md."""
    first = [(Item(**one["item"]), one) for one in kept["first"]]
    second = [(item, kept["items"][item.id]) for item in chosen]
    words = (ROOT / "docs" / "audit.in.txt").read_text(encoding="utf-8")
    rules = ["| rule | severity | findings |", "|---|---|---|"]
    rules += [f"| {rule} | {severity} | {n} |" for (rule, severity), n in sorted(counts.items())]
    parts = {
        "FIRST": shares(first), "FIRST ITEMS": listed(first), "SECOND": shares(second), "SECOND ITEMS": listed(second),
        "RULES": rules,
    }  # fmt: skip
    for name, lines in parts.items():
        words = words.replace(f"<!-- {name} -->", "\n".join(lines).strip())
    return words


def main(arguments: Sequence[str]) -> int:
    """Draws, prints or writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--adversaries", nargs=2, metavar=("STORE", "RUN"))
    parser.add_argument("--write", action="store_true", help="write docs/audit.md from docs/audit.json")
    options = parser.parse_args(arguments)
    every = [item for subject in subjects(options.data) for item, _ in items(subject)]
    chosen = drawn(every)
    judgements = ROOT / "docs" / "audit.json"
    if options.adversaries:
        lacking = EACH - sum(item.family == "tampering and tests" for item in chosen)
        chosen += adversaries(Path(options.adversaries[0]), options.adversaries[1], lacking)
    elif options.write:
        chosen += [Item(**one) for one in json.loads(judgements.read_text(encoding="utf-8"))["adversaries"]]
    if not options.write:
        sys.stdout.write(json.dumps([{"id": item.id, **item._asdict()} for item in chosen], indent=1) + "\n")
        return 0
    kept = json.loads(judgements.read_text(encoding="utf-8"))
    unread = [item.id for item in chosen if item.id not in kept["items"]]
    if unread:
        sys.stderr.write("not judged in docs/audit.json:\n" + "\n".join(unread) + "\n")
        return 1
    counts = Counter((item.rule, item.severity) for item in every)
    (ROOT / "docs" / "audit.md").write_text(page(chosen, counts, kept), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
