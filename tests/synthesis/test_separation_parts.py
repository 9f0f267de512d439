"""A test that alone notices one of several changes decides only if no lie hides that change from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.synthesis._parts import split_hunks
from assay.synthesis._separation import DecidingTests
from assay.verify.separation_plan import TestPlan

from .planning import plan_package

PATH, FILE = "goods/__init__.py", "tests/test_goods.py"
GOODS = '''"""Goods."""


def label(number):
    return f"no. {number}"


def is_heavy(weight):
    return weigh(weight) > 30


def weigh(weight):
    return 7 * weight + 2
'''
BROKEN = GOODS.replace('f"no. {number}"', 'f"{number}"').replace("return 7 * weight + 2", "return None")
TESTS = """from goods import is_heavy, label, weigh


def test_label():
    assert label(3) == "no. 3"


def test_both():
    assert label(1) == "no. 1" and is_heavy(5)
"""
WEIGHED = """

def test_weight():
    assert [weigh(3), weigh(10)] == [23, 72]
"""


async def plans_of(top: Path, tests: str, names: tuple[str, ...]) -> dict[str, TestPlan]:
    right, broken = {PATH: GOODS}, {PATH: BROKEN}
    cases = tuple(f"{FILE}::{name}" for name in names)
    parts = tuple(split_hunks(right, broken))
    assert len(parts) == 2
    deciding = DecidingTests("one", right, broken, {}, cases, 10.0, parts=parts)
    plan = (await plan_package(top, {PATH: GOODS, FILE: tests}, [deciding]))["one"]
    return {test.id.partition("::")[2]: test for test in plan.tests}


@pytest.mark.long
async def test_a_change_that_a_lie_hides_from_its_only_test(tmp_path: Path) -> None:
    """Whoever repairs `label` alone passes `test_both` where `is_heavy` answers True."""
    found = await plans_of(tmp_path / "goods-1.0", TESTS, ("test_label", "test_both"))
    assert found["test_label"].decides
    assert not found["test_both"].decides
    (reason,) = found["test_both"].reasons
    assert reason.startswith("it passes without change 2 of 2 where ")


@pytest.mark.long
async def test_a_change_that_another_test_notices_under_every_lie(tmp_path: Path) -> None:
    names = ("test_label", "test_both", "test_weight")
    found = await plans_of(tmp_path / "goods-1.0", TESTS + WEIGHED, names)
    assert {name: test.reasons for name, test in found.items()} == dict.fromkeys(names, ())
