"""Call plans of a small package, made and measured in the sandbox."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.settings import Settings
from assay.synthesis._call_plans import CallMeasurement, plan_calls
from assay.synthesis._laboratory import Laboratory
from assay.synthesis._releases import Release
from assay.synthesis._separation import DecidingTests
from assay.synthesis._tree import load_source
from assay.verify.calls import CallPlan, call_plans
from assay.verify.separation_plan import SeparationPlan, TestPlan, encode_plan

pytestmark = pytest.mark.slow
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


async def plans_of(
    top: Path, name: str, old: str, new: str, releases: tuple[Release, ...] = ()
) -> tuple[SeparationPlan, tuple[CallPlan, ...]]:
    for path, text in {PATH: GAUGE, FILE: TESTS}.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    case = f"{FILE}::{name}"
    deciding = DecidingTests("one", {PATH: GAUGE}, {PATH: GAUGE.replace(old, new)}, {}, (case,), 10.0)
    layer = await asyncio.to_thread(ensure_toolchain, Settings.from_environment().cache, ())
    backend, tree = NamespacesBackend(), load_source(str(top))
    try:
        async with Laboratory(tree, backend, layer, 1) as laboratory:
            before = SeparationPlan("gauge", tests=(TestPlan(case, "in-process", ("one bit",)),))
            plan = await plan_calls(laboratory, tree, deciding, before, CallMeasurement(6, releases))
    finally:
        await backend.close()
    return plan, call_plans(plan)


async def test_a_test_of_one_bit_answers_is_carried_by_calls(tmp_path: Path) -> None:
    plan, (calls,) = await plans_of(tmp_path / "gauge-1.0", "test_exceeds", "sum(gauge.seen) >", "max(gauge.seen) >")
    assert [(test.method, test.reasons) for test in plan.tests] == [("calls", ())]
    assert calls.tests == (f"{FILE}::test_exceeds",)
    assert calls.inputs >= 20
    assert calls.base_share > 0
    assert calls.mutants[0] >= 0.95 * calls.mutants[1] > 0
    assert str(Path.cwd()).encode() not in encode_plan(plan)
    assert calls.releases_given == {}


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


async def test_a_function_without_inputs_is_left_in_process(tmp_path: Path) -> None:
    plan, calls = await plans_of(tmp_path / "gauge-1.0", "test_version", "2 + 1", "2 - 1")
    assert calls == ()
    assert plan.tests[0].method == "in-process"
