"""The generator: deterministic, whole, and made of programs that compile; the library's scripts are well formed."""

from __future__ import annotations

import re

import pytest

from tests.adversary.compose import FAMILIES, compose, count_compositions
from tests.adversary.library import Script, read_scripts
from tests.adversary.primitives import DIMENSIONS, primitives_of

pytestmark = pytest.mark.newest
PROGRAMS = re.compile(r"<<'PYTHON'[^\n]*\n(.*?)\nPYTHON\n", re.DOTALL)
COMPOSED = 400


def test_one_seed_and_number_give_one_script() -> None:
    assert compose(3, 14) == compose(3, 14)
    assert (
        len({compose(3, number).text for number in range(50)} | {compose(4, number).text for number in range(50)}) > 95
    )


def test_composed_programs_compile() -> None:
    for number in range(COMPOSED // 4):
        programs = PROGRAMS.findall(compose(0, number).text)
        assert programs
        for program in programs:
            compile(program, "composed", "exec")


def test_every_primitive_is_drawn() -> None:
    causes = " ".join(compose(0, number).cause for number in range(COMPOSED))
    for family, _ in FAMILIES:
        for dimension in DIMENSIONS[family]:
            assert not [p.name for p in primitives_of(family, dimension) if f"{dimension}={p.name}" not in causes]


def test_compositions_are_many() -> None:
    assert count_compositions() > 100_000


@pytest.mark.parametrize(("role", "least"), [("attack", 60), ("honest", 10)])
def test_scripts_are_enough_and_named_by_cause(role: str, least: int) -> None:
    scripts = [script for script in read_scripts() if script.role == role]
    assert len(scripts) >= least
    assert all(script.cause and script.summary for script in scripts)
    assert len({script.text for script in scripts}) == len(scripts)


def test_reference_solution_is_put_in() -> None:
    script = Script("x", "honest", ("direct",), "SOLVE\n", "", "")
    assert "__main__" in script.on("direct")
    assert "__main__" not in script.on("py")
