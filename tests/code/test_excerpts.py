"""Excerpts of modules: what is shown of them, and which names are missing."""

from __future__ import annotations

from assay.code.excerpts import excerpt_module, missing_names

TEXT = '''"""Rates."""
import math
from .tables import RATES
from os import path

BASE = 3
LIMIT = BASE * 2
OTHER = 9


def rate(name):
    """Returns a rate.

    >>> rate("a")
    7
    """
    total = RATES[name] + LIMIT

    return math.floor(total)


def unused():
    return OTHER


@staticmethod
def decorated(x): return helper(x)
'''
TABLES = "RATES = {'a': 1}\n"


def shown(functions: set[int]) -> list[int]:
    return [number for number, _ in excerpt_module(TEXT, functions).lines]


def test_a_function_is_shown_with_what_it_needs_and_without_its_docstring() -> None:
    lines = shown({11})
    assert lines == [2, 3, 6, 7, 11, 17, 18, 19]
    assert dict(excerpt_module(TEXT, {11}).lines)[19] == "    return math.floor(total)"


def test_a_decorator_belongs_to_its_function() -> None:
    assert shown({26}) == shown({27}) == [26, 27]


def test_a_name_of_the_package_is_missing_until_its_own_excerpt_is_there() -> None:
    one = excerpt_module(TEXT, {11})
    assert missing_names({"rates.py": one}, ["rates"]) == {"RATES"}
    tables = excerpt_module(TABLES, {1})
    assert missing_names({"rates.py": one, "tables.py": tables}, ["rates"]) == frozenset()


def test_a_name_that_nothing_binds_is_missing() -> None:
    assert missing_names({"rates.py": excerpt_module(TEXT, {26})}, ["rates"]) == {"helper"}


def test_an_import_under_another_name_is_found_and_annotations_are_not_needed() -> None:
    text = "from .words import gettext as _\n\n\ndef said(word: Unknown) -> Other:\n    return _(word)\n"
    one, words = excerpt_module(text, {4}), excerpt_module("def gettext(word):\n    return word\n", {1})
    assert missing_names({"said.py": one}, ["said"]) == {"_"}
    assert missing_names({"said.py": one, "words.py": words}, ["said"]) == frozenset()
