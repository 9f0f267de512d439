"""Recorded verification results in comparable form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from assay.analysis.subject import Subject
from assay.records import Evidence, Trajectory
from assay.verdicts import outcome_verdicts

_OK = ("passed", "xfailed")
_BAD = ("failed", "error", "xpassed")
_SUMMARY = re.compile(r"^=+ ((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s(?: \([\d:]+\))? =+\s*$", re.MULTILINE)
_SUGAR = re.compile(r"^Results \([\d.]+m?s\):\n((?: +\d+ [a-z]+\n?(?: +- .*\n)*)+)", re.MULTILINE)
_UNITTEST = re.compile(r"^Ran (\d+) tests? in [\d.]+s\n+(OK|FAILED)(?: \(([^)]*)\))?\s*$", re.MULTILINE)
_NUMBER = re.compile(r"(?<!\d)(\d+) ([a-z]+)")
_PART = re.compile(r"(failures|errors|skipped|expected failures|unexpected successes)=(\d+)")
_WORDS = {"errors": "error", "error": "error", "failures": "failed"}


class ReportedCounts(NamedTuple):
    """Test counts of one run by one source."""

    source: str
    ok: int
    bad: int
    skipped: int
    total: int
    """As reported; else the sum of the others."""
    evidence: str
    quote: str
    """Verbatim from the evidence."""

    @property
    def unaccounted(self) -> int:
        """Returns the number of tests without a status."""
        return max(0, self.total - self.ok - self.bad - self.skipped)

    def describe(self) -> str:
        """Returns the counts in words."""
        rest = [f"{n} {word}" for n, word in ((self.bad, "failed"), (self.skipped, "skipped")) if n]
        more = f" ({', '.join(rest)})" if rest else ""
        return f"{self.source} says {self.ok} of {self.total} passed{more}"


def reward(trajectory: Trajectory) -> float | None:
    """Returns the recorded reward: `reward` among the named ones, else the lowest; None without one."""
    values: dict[str, Any] = {}
    for item in trajectory.evidence:
        if item.kind == "reward":
            given = item.data.get("values") or item.data.get("rewards")
            values |= given if isinstance(given, dict) else {}
    numbers = {name: float(v) for name, v in values.items() if isinstance(v, int | float)}
    return numbers.get("reward", min(numbers.values(), default=None)) if numbers else None


def passes(trajectory: Trajectory) -> bool:
    """Returns whether the record claims success: by its outcome verdicts, or without any by a reward of 1."""
    outcomes = [v.status for v in outcome_verdicts(trajectory.verdicts)]
    if outcomes:
        return all(status == "pass" for status in outcomes)
    given = reward(trajectory)
    return given is not None and given >= 1


def reported_counts(trajectory: Trajectory) -> list[ReportedCounts]:
    """Returns every recorded test report in order, without those that lack counts and total."""
    return [found for item in trajectory.evidence if item.kind == "test_report" and (found := _read_counts(item))]


def _read_counts(item: Evidence) -> ReportedCounts | None:
    given = item.data.get("counts")
    counts = {k: v for k, v in given.items() if isinstance(v, int)} if isinstance(given, dict) else {}
    total = item.data.get("total")
    if not counts and not isinstance(total, int):
        return None
    ok, bad = sum(counts.get(name, 0) for name in _OK), sum(counts.get(name, 0) for name in _BAD)
    skipped = counts.get("skipped", 0) + counts.get("other", 0)
    whole = total if isinstance(total, int) else sum(counts.values())
    quote = f'"total":{whole}' if isinstance(total, int) else f'"passed":{counts.get("passed", 0)}'
    return ReportedCounts(str(item.data.get("source", "report")), ok, bad, skipped, whole, item.id, quote)


def output_text(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yields texts printed by the verifier's commands, with the id of their evidence."""
    cited = {name for verdict in subject.trajectory.verdicts for name in verdict.evidence}
    for item in subject.trajectory.evidence:
        if item.kind != "test_output" and not (item.kind == "execution" and item.id in cited):
            continue
        for text in _texts(item, subject):
            yield item.id, text


def _texts(item: Evidence, subject: Subject) -> Iterator[str]:
    whole = [text for digest in item.blobs if (text := subject.texts(digest)) is not None]
    if whole:
        yield from whole
        return
    for name in ("text", "content", "stdout"):
        text = item.data.get(name)
        if isinstance(text, str) and text:
            yield text


def logged_counts(subject: Subject) -> list[ReportedCounts]:
    """Returns the summaries of test runs in the verifier's output."""
    found = []
    for identity, text in output_text(subject):
        found += [one._replace(evidence=identity) for one in printed_counts(text)]
    return found


def printed_counts(text: str) -> list[ReportedCounts]:
    """Returns every summary line of pytest (plain or sugar) and unittest in a text, in order."""
    places = [(m.start(), _of_words(m[1], m[0])) for m in _SUMMARY.finditer(text)]
    places += [(m.start(), _of_words(m[1], m[0].splitlines()[0])) for m in _SUGAR.finditer(text)]
    places += [(m.start(), _of_unittest(m)) for m in _UNITTEST.finditer(text)]
    return [one for _, one in sorted(places, key=lambda pair: pair[0]) if one.total]


def last_counts(text: str) -> ReportedCounts | None:
    """Returns the last summary in a text; None without one."""
    found = printed_counts(text)
    return found[-1] if found else None


def _of_words(words: str, line: str) -> ReportedCounts:
    counts: dict[str, int] = {}
    for number, word in _NUMBER.findall(words):
        counts[_WORDS.get(word, word)] = int(number)
    ok, bad = sum(counts.get(n, 0) for n in _OK), sum(counts.get(n, 0) for n in _BAD)
    skipped = counts.get("skipped", 0)
    return ReportedCounts("the log", ok, bad, skipped, ok + bad + skipped, "", line.strip()[:200])


def _of_unittest(match: re.Match[str]) -> ReportedCounts:
    parts = {name: int(number) for name, number in _PART.findall(match[3] or "")}
    bad = parts.get("failures", 0) + parts.get("errors", 0) + parts.get("unexpected successes", 0)
    skipped, total = parts.get("skipped", 0), int(match[1])
    return ReportedCounts("the log", max(0, total - bad - skipped), bad, skipped, total, "", match[0].splitlines()[0])
