"""The sample of long tests that `make test` runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.sampling import SHARE, draw_long_tests


class Marked(NamedTuple):
    """A collected test as the draw sees it: its name, and the nodes that bear its marks."""

    nodeid: str
    marked: tuple[str, ...]

    def iter_markers_with_node(self, name: str) -> list[tuple[Any, str]]:
        return [(self if node == self.nodeid else Marked(node, ()), name) for node in self.marked]


def file_of(name: str, count: int, *, whole: bool = False) -> list[Any]:
    file = f"tests/{name}.py"
    names = [f"{file}::test_{number}" for number in range(count)]
    return [Marked(name, (file,) if whole else (name,)) for name in names]


def test_a_share_is_drawn_and_every_test_by_some_seed() -> None:
    short = Marked("tests/a/test_x.py::test_short", ())
    items = [*file_of("a/test_x", 10 * SHARE), *file_of("b/test_x", SHARE + 1), short]
    drawn = [draw_long_tests(items, f"seed {number}") for number in range(100)]
    assert {sum("/a/" in one.nodeid for one in found) for found in drawn} == {10}
    assert {sum("/b/" in one.nodeid for one in found) for found in drawn} == {1, 2}
    assert set().union(*drawn) == set(items[:-1])
    assert draw_long_tests(items, "seed 1") == drawn[1] != drawn[2]


def test_tests_that_share_what_takes_long_are_drawn_together() -> None:
    items = [*file_of("a/test_x", 5, whole=True), *file_of("a/test_y", 5, whole=True)]
    drawn = [draw_long_tests(items, f"seed {number}") for number in range(30)]
    assert {len(found) for found in drawn} == {0, 5}
