"""Which functions differ between two versions of a file."""

from __future__ import annotations

import pytest

from assay.code.function_changes import compare_functions
from assay.code.source import SourceError

TEXT = '''import functools


def plain(x):
    """Adds one."""
    return x + 1


class Shape:
    @functools.cached_property
    def area(self):
        def inner():
            return 2
        return inner()

    @property
    def side(self):
        return 1

    @side.setter
    def side(self, value):
        self.value = value
'''


def names(first: str, second: str) -> list[str]:
    return [one.name for one in compare_functions(first, second).functions]


def test_a_changed_body_names_its_function_and_first_line() -> None:
    changes = compare_functions(TEXT, TEXT.replace("x + 1", "x - 1"))
    assert [(one.name, one.line) for one in changes.functions] == [("plain", 4)]
    assert not changes.outside


def test_a_nested_function_counts_as_the_one_around_it() -> None:
    changes = compare_functions(TEXT, TEXT.replace("return 2", "return 3"))
    assert [(one.name, one.line, one.last_name) for one in changes.functions] == [("Shape.area", 10, "area")]


def test_comments_and_layout_do_not_count() -> None:
    assert compare_functions(TEXT, TEXT.replace("return x + 1", "return (x  + 1)  # one")) == ((), False)


def test_a_setter_is_told_from_its_property() -> None:
    (changed,) = compare_functions(TEXT, TEXT.replace("self.value = value", "pass")).functions
    assert (changed.last_name, changed.line) == ("side", 20)


@pytest.mark.parametrize("new", ["import functools, os", "import functools\nLIMIT = 3"])
def test_code_outside_of_functions_is_seen(new: str) -> None:
    changes = compare_functions(TEXT, TEXT.replace("import functools", new))
    assert changes == ((), True)


def test_a_new_parameter_is_inside_and_outside() -> None:
    changes = compare_functions(TEXT, TEXT.replace("def plain(x)", "def plain(x, y=0)"))
    assert ([one.name for one in changes.functions], changes.outside) == (["plain"], True)


def test_a_function_that_is_gone_is_changed() -> None:
    assert names(TEXT, TEXT.replace("def plain", "def other")) == ["plain"]


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(SourceError):
        compare_functions(TEXT, "def (")
