"""The trusted parent, as a real process with real test processes below it; no sandbox."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay.verify
from tests.sampling import draw_sample

RUNNER = Path(assay.verify.__file__).with_name("payload") / "assay_supervisor" / "runner.py"
HONEST = "def test_one():\n    assert 1 == 1\n\n\ndef test_two():\n    assert 'a' in 'abc'\n"


def check(folder: Path, text: str, **config: Any) -> dict[str, Any]:
    """One run of `runner.py check` over a test file."""
    (folder / "test_it.py").write_text(text)
    whole = {"args": [str(folder)], "rootdir": str(folder), "roots": [str(folder)], "owned": [str(folder)]}
    given = json.dumps({**whole, "cwd": str(folder), "timeout_s": 30, **config})
    argv = [sys.executable, "-I", "-B", str(RUNNER), "check"]
    done = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=60, check=True)
    return msgspec.json.decode(done.stdout, type=dict[str, Any])  # as the host reads it


def statuses(report: dict[str, Any]) -> dict[str, str]:
    return {test["id"].partition("::")[2]: test["status"] for test in report["tests"]}


def test_a_whole_run_is_reported(tmp_path: Path) -> None:
    report = check(tmp_path, HONEST)
    assert statuses(report) == {"test_one": "passed", "test_two": "passed"}
    assert (report["problems"], report["finished"], report["exit"]) == ([], 0, 0)
    assert report["canaries"]["failed"] == report["canaries"]["planted"] >= 1


def test_tests_have_a_scripts_descriptors_and_none_of_the_supervisors(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os\ndef test_it():\n    os.write(3, b'said')\n"
        "    pipes = [os.readlink(f'/proc/self/fd/{name}') for name in os.listdir('/proc/self/fd')\n"
        "             if os.path.lexists(f'/proc/self/fd/{name}')]\n"
        "    assert sum(pipe.startswith(('socket', 'anon')) for pipe in pipes) == 0\n"
    )
    quiet = f"exec 3>said; {sys.executable} -I -B {RUNNER} script -q -c <(echo [pytest]) test_it.py; cat said"
    done = subprocess.run(["bash", "-c", quiet], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "1 passed" in done.stdout, done
    assert done.stdout.endswith("said"), done


def test_a_failure_whose_message_is_no_text_is_reported(tmp_path: Path) -> None:
    report = check(tmp_path, HONEST + "\n\ndef test_odd():\n    raise ValueError('\\ud800 and \\udfff')\n")
    assert statuses(report) == {"test_one": "passed", "test_two": "passed", "test_odd": "failed"}
    assert "? and ?" in next(test["message"] for test in report["tests"] if test["status"] == "failed")
    assert not report["problems"]


MIXED = """
import pytest, unittest

def test_fails(): assert 1 == 2
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.xfail
def test_xfailed(): assert 0
@pytest.mark.xfail
def test_xpassed(): pass
@pytest.fixture
def broken(): raise ValueError
def test_error(broken): pass
@pytest.mark.parametrize("x", [1, 2])
def test_many(x): assert x == 1
class TestCase(unittest.TestCase):
    def test_sub(self):
        for x in (1, 2):
            with self.subTest(x=x):
                self.assertEqual(x, 1)
"""


def test_every_status_is_told_apart(tmp_path: Path) -> None:
    assert statuses(check(tmp_path, MIXED)) == {
        "test_fails": "failed",
        "test_skipped": "skipped",
        "test_xfailed": "xfailed",
        "test_xpassed": "xpassed",
        "test_error": "error",
        "test_many[1]": "passed",
        "test_many[2]": "failed",
        "TestCase::test_sub": "failed",
    }


def test_only_wanted_tests_run(tmp_path: Path) -> None:
    assert statuses(check(tmp_path, HONEST, only=["test_it.py::test_two"])) == {"test_two": "passed"}


EARLY = {
    "import": "import os\nos._exit(0)\n" + HONEST,
    "middle": HONEST + "\n\ndef test_zero():\n    import os\n    os._exit(0)\n",
    "hook": "import atexit, os\natexit.register(os._exit, 7)\n" + HONEST,
    "killed": HONEST + "\n\ndef test_zero():\n    import os\n    os.kill(os.getpid(), 9)\n",
}


@pytest.mark.parametrize("how", EARLY)
def test_an_early_end_is_a_problem(tmp_path: Path, how: str) -> None:
    report = check(tmp_path, EARLY[how])
    assert any("ended" in problem for problem in report["problems"])


def test_a_descriptor_held_open_does_not_hold_the_parent(tmp_path: Path) -> None:
    forks = "import os, time\n    if os.fork() == 0:\n        time.sleep(20)\n        os._exit(0)\n"
    report = check(tmp_path, f"{HONEST}\n\ndef test_zero():\n    {forks}")
    assert report["problems"] == []
    assert report["duration_s"] < 15


@pytest.mark.long
def test_the_time_limit_ends_the_run_and_keeps_what_was_told(tmp_path: Path) -> None:
    report = check(tmp_path, HONEST + "\n\ndef test_zero():\n    import time\n    time.sleep(60)\n", timeout_s=2)
    assert report["timed_out"]
    assert statuses(report) == {"test_one": "passed", "test_two": "passed", "test_zero": "missing"}


def test_a_patched_runner_does_not_fool_the_canaries(tmp_path: Path) -> None:
    text = "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n" + HONEST
    assert any("must fail did not fail" in problem for problem in check(tmp_path, text)["problems"])


TELLS_CANARIES = """
import sys as s
function = s.modules["_pytest.python"].Function
run = function.runtest
function.runtest = lambda item: None if hasattr(item.module, item.name.partition("[")[0]) else run(item)
"""
ALWAYS_TRUE = """
import sys as s
s.modules["_assay_probes"].compare = lambda name, left, right: True
"""


@pytest.mark.parametrize("patch", [TELLS_CANARIES, ALWAYS_TRUE])
def test_canaries_lie_where_tests_lie_and_are_probed_as_they_are(tmp_path: Path, patch: str) -> None:
    report = check(tmp_path, f"{patch}\n\ndef test_one():\n    assert 1 == 2\n")
    assert statuses(report) == {"test_one": "passed"}
    assert any("that must fail did not fail" in problem for problem in report["problems"])


LISTS_ITSELF = """
import sys

def test_one():
    pass

def test_two():
    assert [name for name in vars(sys.modules[__name__]) if name.startswith("test")] == ["test_one", "test_two"]
"""


def test_canaries_are_not_in_a_module_while_its_tests_run(tmp_path: Path) -> None:
    assert statuses(check(tmp_path, LISTS_ITSELF)) == {"test_one": "passed", "test_two": "passed"}


def test_always_equal_is_told(tmp_path: Path) -> None:
    text = "class A:\n    def __eq__(self, o): return True\n\n\ndef test_one():\n    assert A() == 3\n"
    report = check(tmp_path, text)
    assert report["always_equal"]
    assert statuses(report) == {"test_one": "failed"}


PACKAGE = "from .support import answer\n\n\ndef test_answer(given):\n    assert answer() == given\n"


def test_tests_inside_a_package_import_relatively(tmp_path: Path) -> None:
    inner = tmp_path / "pack" / "tests"
    inner.mkdir(parents=True)
    for place in (inner, inner.parent):
        (place / "__init__.py").touch()
    (inner / "support.py").write_text("def answer():\n    return 42\n")
    (inner.parent / "conftest.py").write_text("import pytest\n\n\n@pytest.fixture\ndef given():\n    return 42\n")
    (inner / "test_pack.py").write_text(PACKAGE)
    report = check(tmp_path, HONEST, only=["pack/tests/test_pack.py::test_answer"])
    assert statuses(report) == {"test_answer": "passed"}


def test_the_standard_library_goes_before_roots(tmp_path: Path) -> None:
    (tmp_path / "colorsys.py").write_text("raise SystemExit(0)\n")
    report = check(tmp_path, "import colorsys\n" + HONEST)
    assert set(statuses(report).values()) == {"passed"}


def test_the_runners_own_programs_may_be_run() -> None:
    assert all(path.stat().st_mode & 0o111 for path in (RUNNER.parent / "bin").iterdir())


PATCHES = [
    "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n",
    "import pytest, contextlib\npytest.raises = lambda *a, **k: contextlib.nullcontext()\n",
    "import pytest\n\n\nclass Any:\n    def __eq__(self, o): return True\n\n\npytest.approx = lambda *a: Any()\n",
    "import builtins\nbuiltins.isinstance = lambda *a: True\n",
    "import builtins\nbuiltins.all = lambda *a: True\n",
]


@pytest.mark.parametrize("patch", draw_sample(PATCHES, 3))
def test_changed_means_of_testing_are_found(tmp_path: Path, patch: str) -> None:
    report = check(tmp_path, HONEST + patch)
    problems = [*report["problems"], *(f"must fail, equals {where}" for where in report["always_equal"])]
    assert any("must fail" in p or "ended" in p for p in problems), problems


def test_configuration_above_the_root_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("def pytest_collection_modifyitems(items):\n    items.clear()\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    assert statuses(check(inner, HONEST)) == {"test_one": "passed", "test_two": "passed"}


RAISES = """
def helper(value):
    return [
        value
        / 0,
    ]


def test_it():
    assert (
        helper(1)
        == [2]
    )
"""


@pytest.mark.long
def test_a_failure_is_told_as_pytest_tells_it_in_short(tmp_path: Path) -> None:
    told = check(tmp_path, RAISES)["tests"][0]["message"]
    argv = [sys.executable, "-I", "-B", "-m", "pytest", "-c", "/dev/null", "--tb=short", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert "ZeroDivisionError" in told
    assert told in done.stdout


@pytest.mark.long
def test_no_file_is_read_anew_for_each_line_of_a_failure(tmp_path: Path) -> None:
    long = "\n".join(f"def unused_{n}(a, b):\n    return [a, b, {{'n': {n}}}]\n" for n in range(2000))
    tests = "\n".join(f"def test_{n}():\n    assert {n} + 1 == 0\n" for n in range(40))
    assert check(tmp_path, long + tests)["duration_s"] < 5 * check(tmp_path, tests)["duration_s"]
