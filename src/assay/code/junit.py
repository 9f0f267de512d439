"""Reads JUnit XML, as pytest, surefire and similar tools write it.

Covered: document type declarations are refused before parsing, so no entity is expanded or fetched; size, depth and
number of tests are bounded; elements are dropped as they are read. Not covered: the truth of the report.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from xml.parsers import expat

from .results import MOST_BYTES, MOST_ID, MOST_TESTS, TestReport, TestResult, TestStatus, make_report

MOST_DEPTH = 64
_SUITES = {"testsuites", "testsuite"}


class _Reader:
    def __init__(self) -> None:
        self.results: list[TestResult] = []
        self._path: list[str] = []
        self._case: dict[str, str] | None = None
        self._status: TestStatus = "passed"
        self._message = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        if not self._path and tag not in _SUITES:
            raise ValueError(f"not JUnit XML: the outermost element is {tag[:50]!r}")
        self._path.append(tag)
        if len(self._path) > MOST_DEPTH:
            raise ValueError(f"JUnit XML nested deeper than {MOST_DEPTH}")
        if tag == "testcase":
            self._begin(attributes)
        elif self._case is not None:
            self._outcome(tag, attributes)

    def _begin(self, attributes: dict[str, str]) -> None:
        if self._case is not None or len(self.results) >= MOST_TESTS:
            raise ValueError(
                "a test case inside another" if self._case is not None else f"more than {MOST_TESTS} tests"
            )
        self._case, self._status, self._message = attributes, "passed", ""

    def _outcome(self, tag: str, attributes: dict[str, str]) -> None:
        """Keeps the worst of several outcomes of a case."""
        found: TestStatus
        if tag in ("failure", "error"):
            found = "failed" if tag == "failure" else "error"
        elif tag == "skipped" and self._status == "passed":
            found = "xfailed" if attributes.get("type", "").endswith("xfail") else "skipped"
        else:
            return
        self._status, self._message = found, attributes.get("message", "")[:MOST_ID]

    def end(self, tag: str) -> None:
        self._path.pop()
        if tag.rpartition("}")[2] == "testcase" and self._case is not None:
            name = "::".join(self._case[k] for k in ("classname", "name") if self._case.get(k))
            seconds = _seconds(self._case.get("time"))
            self.results.append(TestResult(name[:MOST_ID], self._status, self._message, seconds))
            self._case = None

    def data(self, _: str) -> None:
        """Ignores text."""

    def close(self) -> list[TestResult]:
        return self.results


def _seconds(text: str | None) -> float | None:
    try:
        value = float((text or "").replace(",", "")[:40])
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _refuse_doctype(data: bytes) -> None:
    """Raises on a document type declaration; parses up to the first element."""

    class FirstElement(Exception):
        pass

    def doctype(*_: object) -> None:
        raise ValueError("JUnit XML with a document type declaration is refused")

    def element(*_: object) -> None:
        raise FirstElement

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = element
    try:
        parser.Parse(data, True)
    except FirstElement:
        return


def read_junit(data: bytes) -> TestReport:
    """Returns the report in a JUnit XML document. Raises `ValueError` for any other input."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"a JUnit file of {len(data)} bytes; at most {MOST_BYTES} are read")
    reader = _Reader()
    try:
        _refuse_doctype(data)
        parser = ElementTree.XMLParser(target=reader)
        parser.feed(data)
        parser.close()
    except (ElementTree.ParseError, expat.ExpatError, LookupError) as exc:
        raise ValueError(f"not JUnit XML: {exc}") from exc
    return make_report(reader.results, "junit")
