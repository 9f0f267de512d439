"""Tests of functions that take and give plain values of the standard library are judged apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.synthesis._separation import DecidingTests
from assay.verify.separation_plan import SeparationPlan

from .planning import plan_package

PRICES = '''"""Prices."""

import datetime
import decimal
import fractions
import uuid


def with_tax(amounts):
    return [amount * decimal.Decimal("1.19") for amount in amounts]


def shares(count, size):
    return [fractions.Fraction(n, count) for n in range(1, size)]


def due(day, weeks):
    return day + datetime.timedelta(weeks=weeks), datetime.timedelta(weeks=weeks)


def receipt(number):
    return uuid.UUID(int=number + 1)
'''
TESTS = """import datetime
import uuid
from decimal import Decimal
from fractions import Fraction

from prices import due, receipt, shares, with_tax


def test_tax():
    assert with_tax([Decimal("10.00"), Decimal("0.5")]) == [Decimal("11.9000"), Decimal("0.595")]


def test_shares():
    assert shares(3, 3) == [Fraction(1, 3), Fraction(2, 3)]


def test_due():
    day = datetime.date(2020, 2, 1)
    assert due(day, 4) == (datetime.date(2020, 2, 29), datetime.timedelta(days=28))


def test_receipt():
    assert receipt(6).hex.endswith("07")
"""
CHANGES = {
    "test_tax": ('amount * decimal.Decimal("1.19")', "amount"),
    "test_shares": ("Fraction(n, count)", "Fraction(n, count + 1)"),
    "test_due": ("day + datetime.timedelta(weeks=weeks),", "day,"),
    "test_receipt": ("number + 1", "number + 5"),
}
PATH, FILE = "prices/__init__.py", "tests/test_prices.py"


async def plan_of(top: Path, names: tuple[str, ...]) -> SeparationPlan:
    broken = PRICES
    for name in names:
        broken = broken.replace(*CHANGES[name])
    deciding = DecidingTests(
        "one", {PATH: PRICES}, {PATH: broken}, {}, tuple(f"{FILE}::{name}" for name in names), 10.0
    )
    return (await plan_package(top, {PATH: PRICES, FILE: TESTS}, [deciding]))["one"]


@pytest.mark.long
async def test_tests_of_plain_values_are_carried_by_splices(tmp_path: Path) -> None:
    plan = await plan_of(tmp_path / "prices-1.0", tuple(CHANGES))
    assert {test.id.partition("::")[2]: (test.method, test.reasons) for test in plan.tests} == {
        name: ("splice", ()) for name in CHANGES
    }
