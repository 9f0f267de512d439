"""A function moved from one version of a program into another."""

from __future__ import annotations

import pytest

from assay.code.transplant import transplant_function

pytestmark = pytest.mark.quick
TEXT = '''import functools


class Clock:
    @property
    def hour(self):
        """The hour."""
        return self.now % 12

    async def tick(self):
        return 1


def last(items): return items[-1]'''
DONOR = '''def last(items):
    *_, found = items
    return found


class Clock:
    def hour(self):
        # of a day
        return self.now % 24

    async def tick(self):
        """Ticks."""
        return 1
'''


def test_method_keeps_its_decorator_and_place() -> None:
    assert transplant_function(TEXT, DONOR, "Clock.hour") == TEXT.replace(
        '        """The hour."""\n        return self.now % 12', "        # of a day\n        return self.now % 24"
    )


def test_last_line_without_an_end_is_replaced() -> None:
    made = transplant_function(TEXT, DONOR, "last")
    assert made is not None
    assert made.endswith("    *_, found = items\n    return found\n")


@pytest.mark.parametrize(
    ("donor", "name"),
    [
        (DONOR, "Clock.tick"),  # the same but for its docstring
        (DONOR, "first"),
        ("def hour(self):\n    return 1\n", "Clock.hour"),
        ("class Clock:\n  def hour(self):\n    return 1\n", "Clock.hour"),  # another depth
        ("not a program(", "last"),
        ("", "last"),
    ],
)
def test_nothing_else_is_transplanted(donor: str, name: str) -> None:
    assert transplant_function(TEXT, donor, name) is None
