"""Tests run in the opposite order where the verifier is told so, and the record says that they did."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sampling import WHOLE
from tests.verify.conftest import Bench

# Each test writes down that it ran; the last of them says who came before.
SOURCE = """
ran = []

def test_one():
    ran.append(1)
    assert ran == {order}

def test_two():
    ran.append(2)
"""
NAMES = ("test_order.py::test_one", "test_order.py::test_two")


USUAL, REVERSED = ("", [1], "usual"), ("reversed", [2, 1], "reversed")


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "variable", "order", "told"),
    [("pytest", *USUAL), ("pytest", *REVERSED), ("script", *REVERSED), *((("script", *USUAL),) if WHOLE else ())],
)
async def test_order_is_as_asked(bench: Bench, variable: str, order: list[int], told: str, kind: str) -> None:
    bench.files = {"tests/test_order.py": SOURCE.format(order=order), "tests/test.sh": SCRIPT}
    own: dict[str, Any] = (
        {"script": "tests/test.sh"} if kind == "script" else {"tests": [MOUNT], "expected": list(NAMES)}
    )
    found = await bench.judge("true", kind, env={"ASSAY_TEST_ORDER": variable}, **own)
    assert found.verdict.status == "pass", found.verdict.reason
    assert told in {report.get("order") for report in found.of_kind("test_report")}


SCRIPT = "pytest -q /tests/test_order.py && echo 1 > /logs/verifier/reward.txt\n"
MOUNT = {"source": "tests/test_order.py", "target": "test_order.py"}
