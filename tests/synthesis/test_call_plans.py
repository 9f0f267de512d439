"""Call plans of a small package, made and measured in the sandbox."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.settings import Settings
from assay.synthesis._call_plans import CallMeasurement, plan_calls
from assay.synthesis._laboratory import Laboratory
from assay.synthesis._parts import partial_repairs
from assay.synthesis._releases import Release
from assay.synthesis._separation import DecidingTests
from assay.synthesis._tree import load_source
from assay.verify.calls import CallPlan, ReferenceFix, call_plans
from assay.verify.separation_plan import SeparationPlan, TestPlan, encode_plan
from tests.sampling import draw_sample
from tests.verify.conftest import Bench

GAUGE = '''"""Gauges."""


class Gauge:
    def __init__(self, limit):
        self.limit = limit
        self.seen = []

    def read(self, number):
        self.seen.append(number)


def exceeds(gauge):
    """Returns whether the sum is beyond the limit."""
    return sum(gauge.seen) > gauge.limit


def version():
    return 2 + 1
'''
TESTS = """from gauge import Gauge, exceeds, version


def test_exceeds():
    gauge = Gauge(10)
    for number in (3, 4, 5):
        gauge.read(number)
    assert exceeds(gauge)
    assert not exceeds(Gauge(0))


def test_version():
    assert version() == 3
"""
PATH, FILE = "gauge/__init__.py", "tests/test_gauge.py"


class Package(NamedTuple):
    """A package of one module, with tests of it."""

    right: str
    tests: str
    path: str
    file: str


async def make_plans(
    top: Path, package: Package, name: str, broken: str, measurement: CallMeasurement
) -> tuple[SeparationPlan, tuple[CallPlan, ...]]:
    for path, text in {package.path: package.right, package.file: package.tests}.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    case = f"{package.file}::{name}"
    right, wrong = {package.path: package.right}, {package.path: broken}
    parts = partial_repairs(right, wrong)
    deciding = DecidingTests("one", right, wrong, {}, (case,), 10.0, parts=parts)
    layer = await asyncio.to_thread(ensure_toolchain, Settings.from_environment().cache, ())
    backend, tree = NamespacesBackend(), load_source(str(top))
    try:
        async with Laboratory(tree, backend, layer, 1) as laboratory:
            before = SeparationPlan(top.name, tests=(TestPlan(case, "in-process", ("one bit",)),))
            plan = await plan_calls(laboratory, tree, deciding, before, measurement)
    finally:
        await backend.close()
    return plan, call_plans(plan)


async def plans_of(
    top: Path, name: str, old: str, new: str, releases: tuple[Release, ...] = ()
) -> tuple[SeparationPlan, tuple[CallPlan, ...]]:
    package = Package(GAUGE, TESTS, PATH, FILE)
    return await make_plans(top, package, name, GAUGE.replace(old, new), CallMeasurement(6, releases))


@pytest.mark.long
async def test_a_test_of_one_bit_answers_is_carried_by_calls(tmp_path: Path) -> None:
    plan, (calls,) = await plans_of(tmp_path / "gauge-1.0", "test_exceeds", "sum(gauge.seen) >", "max(gauge.seen) >")
    assert [(test.method, test.reasons) for test in plan.tests] == [("calls", ())]
    assert calls.tests == (f"{FILE}::test_exceeds",)
    assert calls.inputs >= 20
    assert calls.base_share > 0
    assert calls.mutants[0] >= 0.95 * calls.mutants[1] > 0
    assert str(Path.cwd()).encode() not in encode_plan(plan)
    assert calls.releases_given == {}


@pytest.mark.long
async def test_a_release_that_passes_the_tests_is_a_further_reference(tmp_path: Path) -> None:
    versions = {"1": GAUGE, "2": "(len(gauge.seen) < 4) * sum(gauge.seen) >", "3": "sum(gauge.seen) >="}
    releases = tuple(
        Release(name, name, {PATH: GAUGE.replace("sum(gauge.seen) >", text) if name != "1" else text})
        for name, text in versions.items()
    )
    changed = ("test_exceeds", "sum(gauge.seen) >", "max(gauge.seen) >")
    plan, (calls,) = await plans_of(tmp_path / "gauge-1.0", *changed, releases)
    assert calls.releases_given == {"1": "no other text", "2": "reference", "3": "fails the tests"}
    (other,) = calls.releases
    assert (other.name, len(other.fixes)) == ("2", 1)
    assert len(other.fixes[0].right) < 80
    assert plan.tests[0].method == "calls"


@pytest.mark.long
async def test_a_function_without_inputs_is_left_in_process(tmp_path: Path) -> None:
    plan, calls = await plans_of(tmp_path / "gauge-1.0", "test_version", "2 + 1", "2 - 1")
    assert calls == ()
    assert plan.tests[0].method == "in-process"


SPANS = '''"""Spans."""


class Span:
    def __init__(self, start, end):
        self.start = start
        self.end = end

    def __eq__(self, other):
        return (self.start, self.end) == (other.start, other.end)


class Chain:
    """Items in an order that counts."""

    def __init__(self, items=()):
        self.items = list(items)

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)

    def __eq__(self, other):
        return self.items == other.items


def runs(numbers):
    """Lists of consecutive numbers."""
    found = []
    for number in sorted(set(numbers)):
        if found and found[-1][-1] == number - 1:
            found[-1].append(number)
        else:
            found.append([number])
    return found


'''
SPAN_TESTS = """from spans import *


def test_spans():
    assert runs([3, 1, 2, 7]) == [[1, 2, 3], [7]]
    assert runs([3, 1, 2, 7]) == runs([1, 2, 3, 7])
    assert runs([9, 1, 2, 5]) == [[1, 2], [5], [9]]
"""
SECOND = {
    "contents": ("def flipped(a, b):\n    return Span(b, a)\n", "(b, a)", "(a, b)", "flipped(1, 2) == Span(2, 1)"),
    "order": ("def sort(i):\n    return Chain(sorted(i))\n", "sorted(i)", "i", "sort([3, 1, 2]) == Chain([1, 2, 3])"),
    "size": (
        "def sort(i):\n    return tuple(sorted(i))\n",
        "sorted(i)",
        "i",
        "len(made := sort((2, 1))) and made == (1, 2)",
    ),
    "closure": ("def adder(n):\n    return lambda m: m + n\n", "m + n", "m", "adder(3)(4) == 7"),
}
"""A function, its defect, and an assertion that needs more of its answer than a class, a size or a name."""


@pytest.mark.long
@pytest.mark.parametrize("kind", draw_sample([*SECOND], 2))
async def test_each_part_of_a_change_is_seen_by_the_draw(tmp_path: Path, kind: str) -> None:
    function, right, wrong, claim = SECOND[kind]
    text, tests = SPANS + function, f"{SPAN_TESTS}    assert {claim}\n"
    partial = text.replace(right, wrong)
    broken = partial.replace("sorted(set(numbers))", "numbers")
    package = Package(text, tests, "spans/__init__.py", "tests/test_spans.py")
    plan, (calls,) = await make_plans(tmp_path / "spans-1.0", package, "test_spans", broken, CallMeasurement(20))
    assert calls.base_share < 0.5, "the share of the whole state alone would be enough with a few inputs"
    layer = await asyncio.to_thread(ensure_toolchain, Settings.from_environment().cache)
    backend = NamespacesBackend()
    try:
        bench = Bench(backend, tmp_path, layer)
        fix = msgspec.json.encode((ReferenceFix(package.path, 0, broken, text),)).decode()
        bench.given = {f"workspace/{package.path}": broken}
        bench.files = {
            package.file: tests,
            "tests/separation.json": encode_plan(plan).decode(),
            "solution/fix.json": fix,
        }
        asked = {"tests": [package.file], "expected": [f"{package.file}::test_spans"]}
        for written, status in ((partial, "fail"), (text, "pass")):
            command = f"cat > {package.path} <<'PYTHON'\n{written}PYTHON\n"
            outcome = await bench.judge(command, "pytest", **asked)
            assert (outcome.verdict.status, outcome.verdict.separation) == (status, "separate"), outcome
        await bench.release_states()
    finally:
        await backend.close()


@pytest.mark.long
async def test_a_part_that_no_drawn_input_shows_leaves_the_test_in_process(tmp_path: Path) -> None:
    function = "def sized(words):\n    return {w: len(w) for w in sorted(words)}\n"
    text = f"import json\n\n{SPANS}{function}"
    broken = text.replace("sorted(words)", "words").replace("sorted(set(numbers))", "numbers")
    tests = SPAN_TESTS + "    assert str(json.dumps(sized(['bb', 'a']))) == '{\"a\": 1, \"bb\": 2}'\n"
    package = Package(text, tests, "spans/__init__.py", "tests/test_spans.py")
    plan, calls = await make_plans(tmp_path / "spans-1.0", package, "test_spans", broken, CallMeasurement(20))
    assert calls == ()
    assert plan.tests[0].method == "in-process"
