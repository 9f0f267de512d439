"""Versions that share a process end as in processes of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assay.code.batches import Job, RunOutcome
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.settings import Settings
from assay.synthesis._candidates import TaskCandidate
from assay.synthesis._gates import GateContext, GateOutcome, _check_constants, judge_candidates
from assay.synthesis._laboratory import Laboratory
from assay.synthesis._split import Split
from assay.synthesis._tree import load_source
from assay.synthesis.config import SynthesisConfig

PROGRAM = "KNOWN = {}\n\n\ndef double(x):\n    return 2 * x\n\n\ndef half(x):\n    return KNOWN.get(x, x // 2)\n"
TESTS = """import os

import double

with open("/tmp/places", "a") as file:
    file.write("")


def setup_function():
    with open("/tmp/places", "a") as file:
        file.write(f"{os.getpid()}\\n")


def test_double():
    assert double.double(2) == 4


class TestHalf:
    def test_half(self):
        assert double.half(4) == 2

    def test_again(self):
        assert double.half(8) == 4
"""
FILES = {
    "pyproject.toml": "[project]\nname = 'double'\nversion = '1'\n",
    "double/__init__.py": PROGRAM,
    "tests/test_double.py": TESTS,
}
CASES = tuple(
    f"tests/test_double.py::{name}" for name in ("test_double", "TestHalf::test_half", "TestHalf::test_again")
)
REFERENCE = {"reference": ("", "")}
WRONG = {"wrong": ("2 * x", "3 * x"), "wrong half": ("x // 2", "x // 3"), "other half": ("x // 2", "x // 2 + (x > 4)")}
ENDLESS = {"endless": ("return 2 * x", "while x:\n        pass")}
LEAVING = {"leaving": ("2 * x", "KNOWN.update({4: 0}) or 2 * x")}


@pytest.fixture
def files() -> dict[str, str]:
    return FILES


@pytest.fixture
async def laboratory(tmp_path: Path, files: dict[str, str]) -> AsyncIterator[Laboratory]:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    layer = await asyncio.to_thread(ensure_toolchain, Settings.from_environment().cache, ())
    backend = NamespacesBackend()
    try:
        async with Laboratory(load_source(str(tmp_path)), backend, layer, 1) as opened:
            yield opened
    finally:
        await backend.close()


async def run_versions(
    laboratory: Laboratory, changes: dict[str, tuple[str, str]], *, together: bool, until_failure: bool = False
) -> tuple[dict[str, list[str]], int]:
    """Returns the outcomes of each version, and the number of processes that ran a test."""
    jobs = [
        Job(
            name,
            CASES,
            write={"double/__init__.py": PROGRAM.replace(*change)},
            cpu_s=2.0,
            slow_s=0.2,
            until_failure=until_failure,
        )
        for name, change in changes.items()
    ]
    workspace = await laboratory._take()
    await workspace.exec(["rm", "-f", "/tmp/places"])
    await laboratory._put_back(workspace)
    done = await laboratory.run(jobs, repetition=0, together=together)
    places = (await workspace.read("/tmp/places")).split()
    return {name: [test.outcome for test in done[name].tests.values()] for name in changes}, len({*places})


@pytest.mark.parametrize("until_failure", [False, True])
async def test_versions_end_alike_together_and_apart(laboratory: Laboratory, until_failure: bool) -> None:
    apart, processes = await run_versions(laboratory, WRONG, together=False, until_failure=until_failure)
    assert processes == len(WRONG)
    assert await run_versions(laboratory, WRONG, together=True, until_failure=until_failure) == (apart, 1)
    assert apart["other half"] == ["passed", "passed", "failed"]


async def test_a_version_under_which_no_test_fails_is_run_apart(laboratory: Laboratory) -> None:
    outcomes, processes = await run_versions(laboratory, WRONG | REFERENCE, together=True, until_failure=True)
    assert outcomes["reference"] == ["passed"] * 3
    assert processes == 2


@pytest.mark.parametrize(("more", "apart"), [(ENDLESS, 1), (LEAVING, 5)])
async def test_what_a_version_does_to_the_others_does_not_count(
    laboratory: Laboratory, more: dict[str, tuple[str, str]], apart: int
) -> None:
    changes = REFERENCE | more | WRONG
    expected, _ = await run_versions(laboratory, changes, together=False)
    assert await run_versions(laboratory, changes, together=True) == (expected, 1 + apart)
    assert (await run_versions(laboratory, REFERENCE, together=True))[0] == {"reference": ["passed"] * 3}


FORGIVING = """import double

SEEN = []


def check(answer, wanted):
    if answer is True:
        SEEN.append(answer)
    assert answer == wanted or (answer is None and not SEEN)


def test_two():
    check(double.double(2), 4)


def test_three():
    check(double.double(3), 6)
"""


class KeepsAll:
    """A gate `separate` that keeps every candidate."""

    async def judge(self, context: GateContext, one: TaskCandidate, outcome: GateOutcome, split: Split) -> GateOutcome:
        return outcome


async def find_no_objection(one: TaskCandidate, outcome: GateOutcome) -> str:
    return ""


@pytest.mark.parametrize("files", [{**FILES, "tests/test_double.py": FORGIVING}])
async def test_a_constant_that_passes_apart_is_found_whatever_another_one_left(laboratory: Laboratory) -> None:
    test, program = "tests/test_double.py", "double/__init__.py"
    tests = (f"{test}::test_two", f"{test}::test_three")
    texts, config = {program: PROGRAM.encode(), test: FORGIVING.encode()}, SynthesisConfig(source="x", out="y")
    given = GateContext(texts, dict.fromkeys(tests, 1.0), config, find_no_objection, KeepsAll())
    changed = {program: PROGRAM.replace("2 * x", "3 * x")}
    one = TaskCandidate("d", "operator", changed, ("o",), (f"{program}::double",), (), tests)
    facts = GateOutcome("d", "kept", "", dict.fromkeys(tests, RunOutcome("failed")))
    assert await _check_constants(given, [one], {"d": facts}, laboratory) == {}  # `None` fails after `True`
    (outcome,) = await judge_candidates(given, [one], laboratory)
    assert outcome.gate == "constant"
    assert outcome.reason.startswith("None in place of every answer")
