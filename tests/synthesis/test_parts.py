"""A change is taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.code.batches import JobResult, RunOutcome
from assay.synthesis._parts import (
    MOST_PARTS,
    find_causes,
    partial_repairs,
    return_constant,
    separate_parts,
    split_hunks,
)

pytestmark = pytest.mark.quick
RIGHT = "A = 1\n\n\ndef f():\n    x = 1\n    y = 2\n    z = 3\n    return x\n\n\ndef g():\n    return 1\n"
LINES = st.lists(st.sampled_from(["x\n", "y\n", "z\n"]), max_size=8)


def test_a_part_is_what_changed_in_one_function_or_place() -> None:
    broken = RIGHT.replace("x = 1", "x = 0").replace("z = 3", "z = 0").replace("A = 1", "A = 0").replace("rn 1", "rn 0")
    texts = [part["m.py"] for part in separate_parts({"m.py": RIGHT}, {"m.py": broken})]
    assert texts == [
        RIGHT.replace("A = 1", "A = 0"),
        RIGHT.replace("x = 1", "x = 0").replace("z = 3", "z = 0"),
        RIGHT.replace("rn 1", "rn 0"),
    ]


def test_a_single_hunk_is_one_run_of_lines() -> None:
    broken = RIGHT.replace("x = 1", "x = 0").replace("z = 3", "z = 0")
    texts = [part["m.py"] for part in split_hunks({"m.py": RIGHT}, {"m.py": broken})]
    assert texts == [RIGHT.replace("x = 1", "x = 0"), RIGHT.replace("z = 3", "z = 0")]


def test_a_constant_takes_the_place_of_a_body_and_leaves_the_docstring() -> None:
    text = 'class A:\n    def f(self):\n        """F."""\n        if self:\n            pass\n\n    def g(self): 2\n'
    assert return_constant(text, "A.f", "True").splitlines()[2:5] == ['        """F."""', "        return True", ""]
    assert return_constant(text, "A.g", "True") == return_constant(text, "A.h", "True") == text


@pytest.mark.parametrize("head", ["@(\n    staticmethod\n)\ndef f():\n", "\x0cdef f():\n"])
def test_a_constant_takes_the_place_of_a_body_below_a_rare_head(head: str) -> None:
    text = f"A = 1\n{head}    x = 1\n    return x\n\nB = 2\n"
    assert return_constant(text, "f", "None") == f"A = 1\n{head}    return None\n\nB = 2\n"


@given(LINES, LINES)
def test_a_change_of_one_part_is_the_whole_change(right: list[str], broken: list[str]) -> None:
    parts = separate_parts({"m.py": "".join(right)}, {"m.py": "".join(broken)})
    assert bool(parts) == (right != broken)
    if len(parts) == 1:
        assert parts == [{"m.py": "".join(broken)}]


def test_causes_are_the_parts_that_alone_make_a_test_fail() -> None:
    passed, failed = RunOutcome("passed"), RunOutcome("failed")
    results = [
        JobResult("0", "done", tests={"a": failed, "b": passed, "c": passed, "d": failed}),
        JobResult("1", "done", tests={"a": passed, "b": failed, "c": passed}),
        JobResult("2", "time"),
    ]
    found = find_causes(["a", "b", "c", "d"], results)
    assert found == {"a": ("part 0",), "b": ("part 1",), "c": ("c",), "d": ("part 0", "part 1")}


def test_functions_that_are_missing_together_are_parts() -> None:
    head, one, two = "a = 1\n", "def f():\n    return 1\n\n\n", "def g():\n    return 2\n\n\n"
    parts = partial_repairs({"m.py": head + one + two + "b = 2\n"}, {"m.py": head + "b = 2\n"})
    assert [part["m.py"] for part in parts] == [head + two + "b = 2\n", head + one + "b = 2\n"]


@pytest.mark.parametrize("count", [1, 2, 13, 60])
def test_each_of_many_runs_of_lines_is_left_alone_where_all_are_in_one_function(count: int) -> None:
    right = "def f():\n" + "".join(f"    a = {n}\n    b = 0\n" for n in range(count))
    broken = right.replace("a = ", "c = ")
    parts = partial_repairs({"m.py": right}, {"m.py": broken})
    assert len(parts) == (0 if count == 1 else min(count, MOST_PARTS))
    assert all(part["m.py"] not in (right, broken) for part in parts)
