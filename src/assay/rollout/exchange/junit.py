"""Writes a run as a JUnit report, which continuous-integration services show as a list of tests.

Each attempt is a test case, each configuration (agent with model) a suite. A pass that something speaks against is a
failure; an attempt without a judgement is an error, never a pass. Text of agents is escaped, and cut at `MOST_CHARS`;
secrets in it are redacted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Literal, NamedTuple
from xml.etree import ElementTree

from assay.records import Separation
from assay.rollout.exchange.secret_check import SecretCheck
from assay.settings import Settings
from assay.store import AttemptRow, RunStore, check_rows, current_verdicts_by_chain, final_rows
from assay.verdicts import Trust, assess

MOST_CHARS = 4_000
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_RESULTS: dict[str, Literal["failure", "error"]] = {"fail": "failure", "doubt": "failure"}


class JUnitCase(NamedTuple):
    """One attempt as a test case."""

    suite: str
    name: str
    task: str
    seconds: float
    result: Literal["failure", "error"] | None
    """None for a pass."""
    message: str = ""
    detail: str = ""


def read_cases(store: RunStore, settings: Settings, require: Separation = "unknown") -> list[JUnitCase]:
    """Returns the decided attempts of a run, by their chains. A pass below the required grade of separation is a
    failure. Settings hold the credentials to redact."""
    check = SecretCheck([store.manifest()], settings)
    checked = check_rows(store)
    rows = final_rows(checked.rows)
    current = current_verdicts_by_chain(store, rows, checked.verdicts)
    cases = [_read_case(store, row, assess(current[row.chain], row, require)) for row in rows]
    return [case._replace(message=check.text(case.message), detail=check.text(case.detail)) for case in cases]


def _read_case(store: RunStore, row: AttemptRow, trust: Trust) -> JUnitCase:
    suite = row.agent if row.model is None else f"{row.agent} {row.model}"
    case = JUnitCase(suite, row.attempt, row.task, row.metrics.get("wall_s", 0.0), None)
    if trust.trusted:
        return case
    verdicts = store.trajectory(row.chain).verdicts
    reasons = [f"{one.check}: {one.status} - {one.reason}" for one in verdicts if one.status != "pass"]
    causes = [f"{row.broke} failed: {row.error}"] if row.broke is not None else []
    detail = "\n".join([*([trust.doubt] if trust.doubt else []), *causes, *reasons])
    return case._replace(result=_RESULTS.get(trust.outcome_class, "error"), message=trust.headline, detail=detail)


def render_junit(run: str, cases: Iterable[JUnitCase]) -> bytes:
    """Returns the XML document, with suites and cases in the order of their names."""
    ordered = sorted(cases, key=lambda case: (case.suite, case.name))
    root = ElementTree.Element("testsuites", {"name": _clean(run), **_counts(ordered)})
    for suite, group in groupby(ordered, key=lambda case: case.suite):
        members = list(group)
        element = ElementTree.SubElement(root, "testsuite", {"name": _clean(suite), **_counts(members)})
        for case in members:
            element.append(_case_element(case))
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _counts(cases: list[JUnitCase]) -> dict[str, str]:
    return {
        "tests": str(len(cases)),
        "failures": str(sum(case.result == "failure" for case in cases)),
        "errors": str(sum(case.result == "error" for case in cases)),
        "time": f"{sum(case.seconds for case in cases):.3f}",
    }


def _case_element(case: JUnitCase) -> ElementTree.Element:
    names = {"classname": _clean(case.task), "name": _clean(case.name), "time": f"{case.seconds:.3f}"}
    element = ElementTree.Element("testcase", names)
    if case.result is not None:
        found = ElementTree.SubElement(element, case.result, {"message": _clean(case.message)})
        found.text = _clean(case.detail)
    return element


def _clean(text: str) -> str:
    """Returns the text without characters that XML 1.0 cannot hold, cut to its bound."""
    cut = text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]} ... ({len(text) - MOST_CHARS} characters omitted)"
    return _NOT_XML.sub("\ufffd", cut)
