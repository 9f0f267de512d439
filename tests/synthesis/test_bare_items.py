"""Tests that run without pytest's protocol end as they do with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.environments.payload import FORKED_TESTS
from assay.synthesis._entry_trace import PAYLOAD

pytestmark = pytest.mark.quick
RUNNING = """import json, sys
import forked_tests, pytest
from bare_items import BareItems, BareOutcomes

job = {"id": "one", "tests": [sys.argv[1]]}
batch = {"root": sys.argv[2], "jobs": [job]}
recorder = BareOutcomes(job)


class Loop:
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        bare, found = BareItems(session.config), {}
        for is_bare in (True, False):
            for item, following in zip(session.items, [*session.items[1:], None]):
                if is_bare and bare.fits(item):
                    found[item.name] = [bare.run(item, following)]
                else:
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                    if not is_bare:
                        found.setdefault(item.name, ["does not fit"]).append(recorder.tests[item.nodeid][0])
        print(json.dumps(found), file=sys.stderr)
        return True


forked_tests.prepare(batch)
forked_tests.start_pytest(batch, job, [recorder, Loop()])
"""
TESTS = """import os
import sys
import unittest
import warnings

import pytest


@pytest.fixture
def broken():
    raise ValueError


@pytest.fixture
def leaving():
    yield 1
    raise ValueError


@pytest.fixture
def asking(request):
    return 1


def test_pass():
    print("text")
    assert os.environ["PYTEST_CURRENT_TEST"].endswith("test_pass (call)")


def test_fail():
    assert False


def test_exit():
    sys.exit(3)


def test_skip():
    pytest.skip()


def test_expected():
    pytest.xfail()


def test_broken(broken):
    pass


def test_leaving(leaving):
    pass


def test_environment(monkeypatch):
    monkeypatch.setenv("CHANGED", "1")


def test_environment_after():
    assert "CHANGED" not in os.environ


def test_filter():
    warnings.simplefilter("error")


def test_filter_after():
    warnings.warn("text")


@pytest.mark.parametrize("number", [1, 2])
def test_number(number):
    assert number == 1


class TestSet:
    def setup_method(self):
        self.number = 1

    def test_method(self):
        assert self.number == 1
        self.number = 2

    def test_method_after(self):
        assert self.number == 1


@pytest.mark.xfail
def test_marked():
    assert False


@pytest.mark.skipif(True, reason="text")
def test_left_out():
    assert False


def test_captured(capsys):
    print("text")
    assert capsys.readouterr().out == "text\\n"


def test_folder(tmp_path):
    assert tmp_path.is_dir()


def test_asking(asking):
    pass


class Case(unittest.TestCase):
    def test_case(self):
        self.assertTrue(True)
"""
OUTCOMES = {
    "passed": (
        "test_pass", "test_environment", "test_environment_after", "test_filter", "test_filter_after", "test_number[1]",
        "test_method", "test_method_after",
    ),
    "failed": ("test_fail", "test_exit", "test_number[2]"),
    "skipped": ("test_skip", "test_expected"),
    "error": ("test_broken", "test_leaving"),
}  # fmt: skip
UNFIT = {
    "test_marked": "skipped",
    "test_left_out": "skipped",
    "test_captured": "passed",
    "test_folder": "passed",
    "test_asking": "passed",
    "test_case": "passed",
}


def run_both_ways(folder: Path, conftest: str) -> dict[str, list[str]]:
    """Returns the outcome of each test, bare and with the protocol."""
    (folder / "test_one.py").write_text(TESTS)
    (folder / "conftest.py").write_text(conftest)
    command = [sys.executable, "-c", RUNNING, str(folder / "test_one.py"), str(folder)]
    env = {**os.environ, "PYTHONPATH": f"{FORKED_TESTS[0].parent}:{PAYLOAD}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stderr.splitlines()[-1])
    return found


def test_tests_end_alike_with_and_without_the_protocol(tmp_path: Path) -> None:
    found = run_both_ways(tmp_path, "")
    fitting = {name: [outcome, outcome] for outcome, names in OUTCOMES.items() for name in names}
    assert found == fitting | {name: ["does not fit", outcome] for name, outcome in UNFIT.items()}


def test_no_test_fits_where_the_package_takes_part_in_the_protocol(tmp_path: Path) -> None:
    found = run_both_ways(tmp_path, "def pytest_runtest_call(item):\n    pass\n")
    assert {bare for bare, _ in found.values()} == {"does not fit"}
