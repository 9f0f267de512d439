import sys
import unittest

sys.path.insert(0, "/workspace")

from words import longest, plural, vowels


def test_plain() -> None:
    assert plural("tree") == "trees"


def test_ends_in_y() -> None:
    assert plural("city") == "cities"


def test_longest() -> None:
    assert longest(["a", "tree", "by"]) == "tree"


class TestCounts(unittest.TestCase):
    def test_vowels(self) -> None:
        self.assertEqual(vowels("mountain"), 4)
