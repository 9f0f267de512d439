"""Reads pytest's output: the short summary (`-rA`) and the final line with counts.

Any code in the tests' process can print such text. Use it to contradict a claim, never alone to support one.
"""

from __future__ import annotations

import re

from .results import MOST_BYTES, MOST_ID, MOST_TESTS, Counts, TestReport, TestResult, TestStatus, make_report

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")
_WORDS: dict[str, TestStatus] = {
    "passed": "passed",
    "failed": "failed",
    "error": "error",
    "errors": "error",
    "skipped": "skipped",
    "xfailed": "xfailed",
    "xpassed": "xpassed",
}
_SUMMARY: dict[str, TestStatus] = {
    "PASSED": "passed",
    "FAILED": "failed",
    "ERROR": "error",
    "SKIPPED": "skipped",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
}
_COUNT = re.compile(r"(?<![\w.])(\d{1,9}) (passed|failed|errors?|skipped|xfailed|xpassed)\b")
_LAST = re.compile(r"^=* ?(?:\d{1,9} [a-z]+(?:, )?)+ in [\d.]{1,20}s")
_SKIPPED = re.compile(r"^\[(\d{1,9})\] (.*)$")


def read_pytest_output(text: str) -> TestReport:
    """Returns the report in terminal text; several runs are added up, so that a printed one cannot hide the failures of
    the first. Raises `ValueError` without a line of counts."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"pytest output of {len(text)} characters; at most {MOST_BYTES} are read")
    totals: dict[str, int] = {}
    results: list[TestResult] = []
    seen_last = False
    for raw in text.splitlines():
        line = _COLOUR.sub("", raw) if "\x1b" in raw else raw
        if _is_last(line):
            seen_last = True
            for number, word in _COUNT.findall(line[:500]):
                status = _WORDS[word]
                totals[status] = totals.get(status, 0) + int(number)
        elif len(results) < MOST_TESTS:
            found = _result(line)
            if found is not None:
                results.append(found)
    if not seen_last:
        raise ValueError("no line that ends a pytest run (such as '3 passed in 0.1s') in the output")
    return make_report(results, "pytest", Counts(**totals))


def _is_last(line: str) -> bool:
    stripped = line.strip("= ")
    return bool(_LAST.match(stripped[:500])) or (stripped.startswith("no tests ran in ") and len(stripped) < 100)


def _result(line: str) -> TestResult | None:
    word, _, rest = line.partition(" ")
    status = _SUMMARY.get(word)
    if status is None or not rest:
        return None
    if status == "skipped":
        folded = _SKIPPED.match(rest)
        return TestResult((folded[2] if folded else rest)[:MOST_ID], status)
    name, _, message = rest.partition(" - ")
    return TestResult(name.strip()[:MOST_ID], status, message[:MOST_ID]) if "::" in name or "." in name else None
