"""Readers of test results: what they read, and that hostile input raises `ValueError` and nothing else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.code.ctrf import read_ctrf
from assay.code.junit import read_junit
from assay.code.pytest_output import read_pytest_output
from assay.code.results import Counts, TestResult, count

pytestmark = pytest.mark.quick

OUTPUT = """
============================= test session starts ==============================
collected 5 items
PASSED test_a.py::test_one
PASSED test_a.py::TestB::test_two[a - b]
SKIPPED [1] test_a.py:12: no reason
XFAIL test_a.py::test_four - a known bug
FAILED test_a.py::test_five - AssertionError: assert 1 == 2
=========== 1 failed, 2 passed, 1 skipped, 1 xfailed in 0.12s ============
"""
JUNIT = b"""<?xml version="1.0"?><testsuites><testsuite name="s" tests="3">
<testcase classname="a" name="one" time="0.5"/>
<testcase classname="a" name="two"><failure message="no">text</failure></testcase>
<testcase classname="a" name="three"><skipped type="pytest.xfail" message="later"/></testcase>
</testsuite></testsuites>"""


def ctrf(cases: list[dict[str, object]], **summary: int) -> bytes:
    return json.dumps({"results": {"tool": {"name": "x"}, "summary": summary, "tests": cases}}).encode()


def test_reads_pytest_summary() -> None:
    report = read_pytest_output(OUTPUT)
    assert report.counts == Counts(passed=2, failed=1, skipped=1, xfailed=1)
    assert report.tests[0] == TestResult("test_a.py::test_one", "passed")
    assert report.tests[-1].message == "AssertionError: assert 1 == 2"


def test_a_second_run_does_not_hide_the_first() -> None:
    assert read_pytest_output(OUTPUT + "\n5 passed in 0.01s\n").counts.failed == 1


@pytest.mark.parametrize("text", ["", "5 passed", "all 5 passed in spirit", "x = 5 passed in 0.1s"])
def test_output_without_a_last_line_is_no_report(text: str) -> None:
    with pytest.raises(ValueError, match="no line that ends"):
        read_pytest_output(text)


def test_colours_are_read_through() -> None:
    line = "\x1b[32m====== \x1b[32m\x1b[1m3 passed\x1b[0m\x1b[32m in 0.02s\x1b[0m\x1b[32m ======\x1b[0m"
    assert read_pytest_output(line).counts.passed == 3


def test_reads_junit() -> None:
    report = read_junit(JUNIT)
    assert [(t.id, t.status) for t in report.tests] == [
        ("a::one", "passed"),
        ("a::two", "failed"),
        ("a::three", "xfailed"),
    ]
    assert report.tests[0].duration_s == 0.5


BOMB = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><testsuites>&b;</testsuites>"""
OUTSIDE = b"""<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><testsuites><testcase name="&a;"/></testsuites>"""


@pytest.mark.parametrize("data", [BOMB, OUTSIDE, BOMB.decode().encode("utf-16")])
def test_junit_with_entities_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"document type|not JUnit"):
        read_junit(data)


def test_a_failure_called_skipped_stays_a_failure() -> None:
    case = b'<testsuite><testcase name="x"><failure/><skipped/></testcase></testsuite>'
    assert read_junit(case).counts == Counts(failed=1)


def test_deep_junit_is_refused() -> None:
    with pytest.raises(ValueError, match="deeper"):
        read_junit(b"<testsuite>" * 100)


def test_reads_ctrf() -> None:
    report = read_ctrf(ctrf([{"name": "a", "status": "passed", "duration": 1500}, {"name": "b", "status": "failed"}]))
    assert report.counts == Counts(passed=1, failed=1)
    assert report.tests[0].duration_s == 1.5


def test_ctrf_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="failed=0"):
        read_ctrf(ctrf([{"name": "b", "status": "failed"}], tests=1, passed=0, failed=0))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"results": 1}', ctrf([{"name": "a", "status": "great"}]), b"\xff"]
)
def test_what_is_no_ctrf_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="CTRF"):
        read_ctrf(data)


def only_value_errors(reader: Callable[[bytes], object], data: bytes) -> None:
    with contextlib.suppress(ValueError):
        reader(data)


@given(st.binary(max_size=300))
def test_bytes_raise_nothing_but_value_errors(data: bytes) -> None:
    for reader in (read_ctrf, read_junit, lambda d: read_pytest_output(d.decode(errors="replace"))):
        only_value_errors(reader, data)


xml_parts = st.sampled_from(
    [
        "<testsuite>",
        "</testsuite>",
        "<testcase name='a'>",
        "</testcase>",
        "<failure/>",
        "<skipped/>",
        "&a;",
        "x",
        "<!--",
        "-->",
    ]
)


@given(st.lists(xml_parts, max_size=30))
def test_broken_xml_raises_nothing_but_value_errors(parts: list[str]) -> None:
    only_value_errors(read_junit, "".join(parts).encode())


plain = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["results", "tests", "name"]), inner),
)


@given(plain)
def test_any_json_raises_nothing_but_value_errors(value: object) -> None:
    only_value_errors(read_ctrf, json.dumps(value).encode())


statuses = st.sampled_from(["passed", "failed", "skipped", "other"])


@given(st.lists(st.tuples(st.text(max_size=20), statuses), max_size=20))
def test_ctrf_round_trip(tests: list[tuple[str, str]]) -> None:
    report = read_ctrf(ctrf([{"name": name, "status": status} for name, status in tests]))
    assert [(t.id, t.status) for t in report.tests] == tests
    assert report.counts == count(report.tests)
    assert report.counts.total == len(tests)
