"""Failing tests are split so that something is shown and something else decides."""

from __future__ import annotations

import ast

import pytest

from assay.code.batches import RunOutcome
from assay.synthesis._split import UnsplittableError, split_failing_tests

pytestmark = pytest.mark.quick
TEXT = """import pytest

class Base:
    def test_shared(self):
        assert 1

class TestA(Base):
    @pytest.mark.x
    def test_own(self):
        assert 2

# a comment
def test_one():
    x = 1
    assert x == 1
    assert x == 2

def test_two():
    assert 3
"""


def failed(line: int = 0) -> RunOutcome:
    return RunOutcome("failed", line=line)


def test_hidden_tests_are_taken_out_of_the_text() -> None:
    names = ["t.py::TestA::test_shared", "t.py::TestA::test_own", "t.py::test_one", "t.py::test_two"]
    parts = split_failing_tests({name: failed() for name in names}, {"t.py": TEXT}, "seed")
    assert sorted((*parts.visible, *parts.hidden)) == sorted(names)
    assert len(parts.visible) == 1
    left = {n.name for n in ast.walk(ast.parse(parts.texts["t.py"])) if isinstance(n, ast.FunctionDef)}
    assert left == {parts.visible[0].rpartition("::")[2]}
    assert "# a comment" in parts.texts["t.py"]


def test_split_is_the_same_for_the_same_seed() -> None:
    flipped = {"t.py::test_one": failed(), "t.py::test_two": failed()}
    assert split_failing_tests(flipped, {"t.py": TEXT}, "a") == split_failing_tests(flipped, {"t.py": TEXT}, "a")


def test_single_test_is_cut_after_the_failing_statement() -> None:
    parts = split_failing_tests({"t.py::test_one": failed(line=15)}, {"t.py": TEXT}, "seed")
    assert (parts.how, parts.visible, parts.hidden) == ("cut", ("t.py::test_one",), ("t.py::test_one",))
    assert "assert x == 1" in parts.texts["t.py"]
    assert "assert x == 2" not in parts.texts["t.py"]


@pytest.mark.parametrize(("test", "line"), [("test_one", 16), ("test_two", 19), ("test_one", 0)])
def test_single_test_that_fails_at_its_end_cannot_be_split(test: str, line: int) -> None:
    with pytest.raises(UnsplittableError, match="no other"):
        split_failing_tests({f"t.py::{test}": failed(line)}, {"t.py": TEXT}, "seed")


def test_definition_in_another_file_cannot_be_hidden() -> None:
    with pytest.raises(UnsplittableError, match="own file"):
        split_failing_tests({"t.py::TestA::test_far": failed(), "t.py::test_one": failed()}, {"t.py": TEXT}, "seed")


def test_cases_that_share_a_definition_stay_together() -> None:
    flipped = {"t.py::TestA::test_shared": failed(5), "t.py::Base::test_shared": failed(5)}
    with pytest.raises(UnsplittableError):
        split_failing_tests(flipped, {"t.py": TEXT}, "seed")


FOUR = "".join(f"def test_{name}():\n    assert 0\n\n" for name in "abcdef")
NAMES = [f"t.py::test_{name}" for name in "abcdef"]


@pytest.mark.parametrize("seed", [str(n) for n in range(20)])
def test_what_a_hidden_test_fails_of_a_visible_one_fails_of(seed: str) -> None:
    causes = {name: ("shared", part) for name, part in zip(NAMES, "xxyyzz", strict=True)}
    parts = split_failing_tests({name: failed() for name in NAMES}, {"t.py": FOUR}, seed, causes)
    seen = {part for name in parts.visible for part in causes[name]}
    assert {part for name in parts.hidden for part in causes[name]} <= seen
    assert len(parts.visible) == 3


def test_all_are_shown_and_cut_where_each_fails_of_something_else() -> None:
    flipped = {"t.py::test_one": failed(15), "t.py::test_two": failed(19)}
    parts = split_failing_tests(flipped, {"t.py": TEXT}, "seed", {name: (name,) for name in flipped})
    assert (parts.how, parts.visible, parts.hidden) == ("cut", tuple(flipped), ("t.py::test_one",))
    assert "assert x == 1" in parts.texts["t.py"]
    assert "assert 3" in parts.texts["t.py"]
    assert "assert x == 2" not in parts.texts["t.py"]


def test_nothing_is_left_to_hide_where_each_fails_of_something_else_and_ends_there() -> None:
    with pytest.raises(UnsplittableError, match="at its end"):
        split_failing_tests(
            {name: failed() for name in NAMES}, {"t.py": FOUR}, "seed", {name: (name,) for name in NAMES}
        )


def test_causes_change_nothing_where_the_drawn_tests_have_all() -> None:
    flipped = {name: failed() for name in NAMES}
    same = split_failing_tests(flipped, {"t.py": FOUR}, "seed", dict.fromkeys(NAMES, ("shared",)))
    assert same == split_failing_tests(flipped, {"t.py": FOUR}, "seed")
