"""Finds the lines that verdicts and findings cite.

A finding quotes the record, so its lines are found exactly. A verdict names evidence, not lines: of each piece the most
informative line for the reason is cited (a test that it names, a failed test, the last error line of an output), else
the evidence as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from assay.analysis.interface import Finding, Quote
from assay.analysis.judge import RULES
from assay.records import Body, Evidence, EvidenceAdded, Noted, Observation, Step, StepAdded, Verdict
from assay.records import VerdictAdded as Given
from assay.store.chain import decode_event
from assay.verdicts import MARKS

from .chains import Chain
from .outline import Outline
from .texts import pointer

MOST_VERDICTS, MOST_CITED, MOST_FINDINGS, MOST_QUOTES = 200, 24, 200, 8
_SHOWN = 200
_ERROR = re.compile(r"\b(?:FAILED|FAIL|Traceback|[A-Z]\w*(?:Error|Exception)\b|error:|fatal:|assert)|^E ", re.MULTILINE)
_FAILED = ("failed", "error")
_TEST = re.compile(r"[\w/.]{1,300}::[\w:\[\].-]+|\btest_\w+")
_RULES = {rule.name: rule.means for rule in RULES}
_REASON = 2000
"""Characters of a reason that are shown and searched."""


class Citation(NamedTuple):
    """A cited place in the record."""

    line: int
    """Of the outline."""
    at: str
    """JSON pointer in the event; empty for the whole of it."""
    row: int
    """Line of that text, from 1; 0 for the whole of it."""
    text: str
    """That line, truncated."""
    offset: int = 0
    """Position of the citation in that text, in characters."""


def list_verdicts(chain: Chain, outline: Outline) -> list[dict[str, Any]]:
    """Returns all verdicts with the lines that they cite, in order."""
    events = {line: outline.events[line] for line in outline.verdicts[:MOST_VERDICTS]}
    bodies = _bodies(chain, events.values())
    found = [(line, given.verdict) for line, n in events.items() if isinstance(given := bodies.get(n), Given)]
    cited = {name for _, verdict in found for name in verdict.evidence[:MOST_CITED]}
    lines = {name: outline.evidence[name] for name in cited if name in outline.evidence}
    facts = _bodies(chain, (outline.events[line] for line in lines.values()))
    evidence = {
        name: (line, fact.evidence)
        for name, line in lines.items()
        if isinstance(fact := facts.get(outline.events[line]), EvidenceAdded)
    }
    return [_verdict(line, verdict, evidence) for line, verdict in found]


def _verdict(line: int, verdict: Verdict, evidence: Mapping[str, tuple[int, Evidence]]) -> dict[str, Any]:
    cited = []
    for name in verdict.evidence[:MOST_CITED]:
        at = evidence.get(name)
        place = _best_citation(at[0], at[1], verdict.reason[:_REASON]) if at is not None else None
        kind = at[1].kind if at is not None else None
        cited.append({"id": name, "kind": kind, "place": None if place is None else place._asdict()})
    return {
        "line": line,
        "check": verdict.check,
        "kind": verdict.kind,
        "status": verdict.status,
        "score": verdict.score,
        "reason": verdict.reason[:_REASON],
        "marks": [[mark[:200], mark_meaning(mark)] for mark in verdict.marks[:30]],
        "separation": verdict.separation,
        "separations": dict(verdict.separations),
        "rewards": dict(list(verdict.rewards.items())[:20]),
        "verifier": verdict.verifier,
        "duration_s": verdict.duration_s,
        "cited": cited,
        "left_out": max(len(verdict.evidence) - MOST_CITED, 0),
    }


def mark_meaning(mark: str) -> str | None:
    """Returns the meaning of a verdict's mark, or of the audit rule of that name; None for others."""
    return MARKS.get(mark) or _RULES.get(mark)


def _best_citation(line: int, evidence: Evidence, reason: str) -> Citation:
    data = evidence.data
    tests = data.get("tests")
    if evidence.kind == "test_report" and isinstance(tests, list):
        test = _find_test(tests, reason)
        if test is not None:
            return Citation(line, "/evidence/data/tests", 0, test[:_SHOWN])
    for name in ("stderr", "stdout"):
        text = data.get(name)
        row = _find_error_line(text, reason) if isinstance(text, str) else 0
        if row:
            return _line_citation(line, pointer("evidence", "data", name), str(text), row)
    for name in ("values", "observed", "exit_code", "reward", "digest"):
        if name in data:
            shown = msgspec.json.encode({name: data[name]}).decode("utf-8", "replace")
            return Citation(line, pointer("evidence", "data", name), 0, shown[:_SHOWN])
    return Citation(line, "", 0, evidence.kind)


def _find_test(tests: list[Any], reason: str) -> str | None:
    """Returns the first test that the reason names, else the first failed one."""
    named = [(str(t.get("id", "")), t.get("status")) for t in tests if isinstance(t, dict)]
    named_test = next((name for name, _ in named if name and name in reason), None)
    return named_test or next((name for name, status in named if status in _FAILED), None)


def _find_error_line(text: str, reason: str) -> int:
    """Returns the output's line that the reason names, else the last error line; 0 for none."""
    for word in _TEST.findall(reason)[:5]:
        at = text.find(word.rpartition("::")[2])
        if at >= 0:
            return text.count("\n", 0, at) + 1
    last = None
    for last in _ERROR.finditer(text[-(1 << 20) :]):  # noqa: B007 - the last one is wanted
        pass
    return 0 if last is None else text.count("\n", 0, max(len(text) - (1 << 20), 0) + last.start()) + 1


def _line_citation(line: int, at: str, text: str, row: int) -> Citation:
    before = text.split("\n", row)[: row - 1]
    offset = sum(map(len, before)) + len(before)
    return Citation(line, at, row, text[offset : offset + _SHOWN].partition("\n")[0], offset)


def list_findings(chain: Chain, outline: Outline) -> list[dict[str, Any]]:
    """Returns an audit's findings, with the place of every quote."""
    if outline.audited < 0:
        return []
    body = decode_event(chain.link(outline.audited)).body
    listed = body.data.get("findings") if isinstance(body, Noted) else None
    found = list(_valid_findings(listed if isinstance(listed, list) else ()))[:MOST_FINDINGS]
    lines = {q.step: outline.steps[q.step] for f in found for q in f.quotes[:MOST_QUOTES] if q.step in outline.steps}
    cited = {name: outline.evidence[name] for f in found for name in f.evidence if name in outline.evidence}
    bodies = _bodies(chain, (outline.events[line] for line in {*lines.values(), *cited.values()}))
    body_of = {line: bodies[outline.events[line]] for line in {*lines.values(), *cited.values()}}
    return [_finding(finding, outline, lines, cited, body_of) for finding in found]


def _valid_findings(listed: Iterable[Any]) -> Iterator[Finding]:
    """Yields the valid findings; an imported record may hold anything."""
    for each in listed:
        try:
            yield msgspec.convert(each, Finding)
        except (msgspec.ValidationError, ValueError, RecursionError):
            continue


def _finding(
    finding: Finding, outline: Outline, lines: Mapping[int, int], cited: Mapping[str, int], body_of: Mapping[int, Body]
) -> dict[str, Any]:
    quotes = []
    for quote in finding.quotes[:MOST_QUOTES]:
        of_evidence = [cited[name] for name in finding.evidence if name in cited] if quote.field == "evidence" else []
        tried = of_evidence or ([lines[quote.step]] if quote.step in lines else [])
        places = (_find_quote(line, body_of[line], quote) for line in tried)
        place = next((p for p in places if p is not None), None)
        quotes.append(
            {"step": quote.step, "field": quote.field, "text": quote.text[:2000], "place": place and place._asdict()}
        )
    return {
        "rule": finding.rule,
        "family": finding.family,
        "severity": finding.severity,
        "means": mark_meaning(finding.rule),
        "reach": finding.reach,
        "summary": finding.summary[:2000],
        "steps": [[step, outline.steps.get(step, -1)] for step in finding.steps[:50]],
        "evidence": [[name, cited.get(name, -1)] for name in finding.evidence[:50]],
        "quotes": quotes,
    }


def _find_quote(line: int, body: Body, quote: Quote) -> Citation | None:
    """Returns the place of a quote in an event; the whole event where its exact words are missing."""
    for at, text in _texts(body, quote):
        found = text.find(quote.text)
        if found >= 0:
            row = text.count("\n", 0, found) + 1
            return _line_citation(line, at, text, row)._replace(offset=found)
    return Citation(line, "", 0, quote.text[:_SHOWN])


def _texts(body: Body, quote: Quote) -> Iterator[tuple[str, str]]:
    if isinstance(body, EvidenceAdded):
        yield from (
            (pointer("evidence", "data", name), text)
            for name, text in body.evidence.data.items()
            if isinstance(text, str)
        )
    elif isinstance(body, StepAdded):
        yield from _step_texts(body.step, quote)


def _step_texts(step: Step, quote: Quote) -> Iterator[tuple[str, str]]:
    if quote.field == "message":
        yield "/step/message", step.message or ""
    elif quote.field == "reasoning":
        yield "/step/reasoning", step.reasoning or ""
    elif quote.field == "arguments":
        for at, call in enumerate(step.tool_calls):
            if quote.call in (None, at):
                where = pointer("step", "tool_calls", at)
                for name, value in (call.parsed or {}).items():
                    if isinstance(value, str):
                        yield where + pointer("parsed", name), value
                yield where + "/arguments", call.arguments
    else:
        for at, seen in enumerate(step.observations):
            yield from _observation_texts(seen, pointer("step", "observations", at))


def _observation_texts(observation: Observation, where: str) -> Iterator[tuple[str, str]]:
    yield where + "/content", observation.content
    yield where + "/stderr", observation.stderr


def _bodies(chain: Chain, numbers: Iterable[int]) -> dict[int, Body]:
    return {number: decode_event(link).body for number, link in chain.links_by_number(numbers).items()}
