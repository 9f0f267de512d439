"""Versions of a package that are made in memory end as those that are imported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assay.code.batches import Job, JobResult
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.settings import Settings
from assay.synthesis._gates import normalise_message
from assay.synthesis._laboratory import Laboratory
from assay.synthesis._separation import DecidingTests
from assay.synthesis._tree import load_source
from tests.synthesis.planning import plan_package

PROGRAM = """def at_import(x):
    return x


def double(x):
    \"\"\"Doubles.\"\"\"
    return 2 * x


def outer(x):
    def inner(y):
        return 2 * y

    return inner(x)


LIMIT = at_import(4)
sides = [lambda x: x, lambda x: 2 * x]
"""
CONFTEST = """import double
import pytest


def pytest_addoption(parser):
    parser.addoption("--limit", default=4)


@pytest.fixture
def limit(request):
    return request.config.getoption("--limit")
"""
TESTS = """import sys

import double


def test_double(limit):
    assert double.double(2) == limit


def test_outer():
    assert double.outer(2) == 4


def test_limit():
    assert double.LIMIT == 4


def test_sides():
    assert [side(2) for side in double.sides] == [2, 4]


def test_doc():
    assert double.double.__doc__ == "Doubles."


def test_place():
    raise ValueError(len(sys.modules["loaded_package"].IN_MEMORY))
"""
FILES = {
    "pyproject.toml": "[project]\nname = 'double'\nversion = '1'\n",
    "double/__init__.py": PROGRAM,
    "tests/conftest.py": CONFTEST,
    "tests/test_double.py": TESTS,
}
PLACE = "tests/test_double.py::test_place"
CHANGES = {
    "unchanged": ("", "", True),
    "body": ("return 2 * x\n\n\ndef outer", "return 3 * x\n\n\ndef outer", True),
    "inner function": ("2 * y", "3 * y", True),
    "ran while imported": ("    return x\n", "    return x + 1\n", False),
    "lambda on a line with another": ("lambda x: 2 * x", "lambda x: 3 * x", False),
    "outside functions": ("at_import(4)", "at_import(5)", False),
    "documentation": ("Doubles.", "Triples.", False),
    "moved": ("def double", "\n\ndef double", True),
    "moved and changed": ("    return 2 * x\n", "    y = 3\n    return y * x\n", True),
    "another function": ("def double", "def more():\n    pass\n\n\ndef double", False),
}
"""Name to what is replaced by what, and whether it is possible in memory."""


@pytest.fixture
async def laboratory(tmp_path: Path) -> AsyncIterator[Laboratory]:
    for path, text in FILES.items():
        (tmp_path / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / path).write_text(text)
    layer = await asyncio.to_thread(ensure_toolchain, Settings.from_environment().cache, ())
    backend, tree = NamespacesBackend(), load_source(str(tmp_path / "source"))
    async with Laboratory(tree, backend, layer, 1) as opened:
        yield opened
    await backend.close()


def jobs(*, explain: bool = False) -> list[Job]:
    texts = {name: PROGRAM.replace(old, new, 1) if old else PROGRAM for name, (old, new, _) in CHANGES.items()}
    assert len(set(texts.values())) == len(texts)
    return [
        Job(name, ("tests/test_double.py",), write={"double/__init__.py": text}, explain=explain)
        for name, text in texts.items()
    ]


def outcomes(result: JobResult) -> dict[str, tuple[str, str, str]]:
    return {
        test: (one.outcome, one.type, normalise_message(one.message))
        for test, one in result.tests.items()
        if test != PLACE
    }


@pytest.mark.parametrize("explain", [False, True])
async def test_versions_in_memory_end_as_those_that_are_imported(laboratory: Laboratory, explain: bool) -> None:
    loaded = await laboratory.run(jobs(explain=explain), repetition=0)
    fresh = await laboratory.run(jobs(explain=explain), repetition=0, fresh=True)
    for name in CHANGES:
        assert outcomes(loaded[name]) == outcomes(fresh[name]), name
        assert loaded[name].ended == "done"
    assert outcomes(loaded["body"])["tests/test_double.py::test_double"][0] == "failed"
    assert outcomes(loaded["lambda on a line with another"])["tests/test_double.py::test_sides"][0] == "failed"


async def test_only_functions_that_shaped_nothing_are_replaced_in_memory(laboratory: Laboratory) -> None:
    done = await laboratory.run(jobs(), repetition=0)
    in_memory = {name for name in CHANGES if done[name].tests[PLACE].message == "1"}
    assert in_memory == {name for name, (_, _, is_possible) in CHANGES.items() if is_possible}


BOX = """def _double(n):
    return 2 * n


def box(items):
    return [_double(items[0]), *items]
"""
BOX_TESTS = """import box

MEMORY = []


def test_exact():
    assert box.box([3]) == [6, 3]


def test_once():
    found = box.box([3])
    MEMORY.append(found)
    assert len(MEMORY) == 1
    assert 3 in found
    assert 6 in found or found == [3]
"""


async def test_what_a_false_answer_leaves_behind_refutes_no_other_one(tmp_path: Path) -> None:
    files = {"pyproject.toml": FILES["pyproject.toml"], "box/__init__.py": BOX, "tests/test_box.py": BOX_TESTS}
    right, cases = {"box/__init__.py": BOX}, ("tests/test_box.py::test_exact", "tests/test_box.py::test_once")
    broken = {"box/__init__.py": BOX.replace("2 * n", "3 * n")}
    deciding = DecidingTests("one", right, broken, {}, cases, 5.0)
    plan = (await plan_package(tmp_path, files, [deciding]))["one"]
    exact, once = sorted(plan.tests, key=lambda test: test.id)
    assert exact.decides
    assert once.reasons == ("it passes unrepaired where entry points answer: first argument",)
