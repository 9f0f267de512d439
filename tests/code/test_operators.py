"""Mutation operators: one written-out example each, text kept elsewhere, every reversible change taken back."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.code.operators import FEATURE, OPERATORS, WIDER, Site, apply, apply_all, find_sites, repair_candidates
from assay.code.source import SourceError, equivalent

pytestmark = pytest.mark.quick

EXAMPLES = {
    "comparison_swapped": ("if a  ==  b: pass\n", "if a  !=  b: pass\n"),
    "comparison_boundary": ("x = (a)  # <\nok = a < b\n", "x = (a)  # <\nok = a <= b\n"),
    "boolean_swapped": ("x = a and b\n", "x = a or b\n"),
    "arithmetic_swapped": ("x = a + b\n", "x = a - b\n"),
    "sign_removed": ("x = -a\n", "x = a\n"),
    "constant_shifted": ("x = 3\n", "x = 4\n"),
    "condition_negated": ("while a: pass\n", "while not (a): pass\n"),
    "negation_removed": ("if not a: pass\n", "if a: pass\n"),
    "arguments_swapped": ("f(a, b)\n", "f(b, a)\n"),
    "pair_swapped": ("x, y = z\n", "y, x = z\n"),
    "keyword_dropped": ("f(a, k=1)\n", "f(a)\n"),
    "default_changed": ("def f(a=None): pass\n", "def f(a=0): pass\n"),
    "flag_flipped": ("x = True\n", "x = False\n"),
    "literal_emptied": ("x = 'é'\n", 'x = ""\n'),
    "end_index_swapped": ("y = x[0]\n", "y = x[-1]\n"),
    "bound_removed": ("y = x[1:n]\n", "y = x[:n]\n"),
    "call_swapped": ("y = min(x)\n", "y = max(x)\n"),
    "ternary_swapped": ("y = a if c else b\n", "y = b if c else a\n"),
    "filter_removed": ("y = [i for i in x if i]\n", "y = [i for i in x]\n"),
    "variable_replaced": ("def f(a, b):\n    g = a\n", "def f(a, b):\n    g = b\n"),
    "return_emptied": ("def f():\n    return 1\n", "def f():\n    return None\n"),
    "statement_removed": ("def f():\n    g()\n    return 1\n", "def f():\n    return 1\n"),
    "guard_removed": ("def f():\n    if a:\n        return 1\n    h()\n", "def f():\n    h()\n"),
    "loop_exit_swapped": ("while a:\n    break\n", "while a:\n    continue\n"),
    "augmentation_changed": ("x += 1\n", "x -= 1\n"),
    "exception_changed": ("raise ValueError('x')\n", "raise TypeError('x')\n"),
}
WIDER_EXAMPLES = {
    "condition_fixed": ("if a  ==  b: pass\n", "if True: pass\n"),
    "float_shifted": ("x = 1.5  # 2\n", "x = 3.0  # 2\n"),
    "text_changed": ("x = 'né'\n", "x = 'n_'\n"),
    "number_in_text_shifted": ("x = '404 Not Found, 7'\n", "x = '405 Not Found, 7'\n"),
    "loop_skipped": ("x = [i for i in y]\n", "x = [i for i in ()]\n"),
    "raise_removed": ("def f():\n    raise E\n", "def f():\n    pass\n"),
    "else_removed": ("if a: b()\nelse:\n    c()\n    d()\n", "if a: b()\nelse:\n    pass\n"),
    "decorator_removed": (
        "class A:\n    @b\n    @c(1)\n    def f(): pass\n",
        "class A:\n    @c(1)\n    def f(): pass\n",
    ),
}
PROGRAM = '''"""Module."""
import typing


class Stack:
    """é: not ASCII, so that columns in bytes and in characters differ."""

    def take(self, items: typing.List[int], limit=0, *, strict=True):
        """Docstring with a < b and True."""
        total, seen = 0, []  # a comment with == in it
        for item in items[1:]:
            if item in seen and not strict: continue
            if (item
                    <= limit):  # <=
                raise ValueError("too small é")
            total += item * 2; seen.append(item)
        return (total, max(seen)) if seen else (-1, None)
'''


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_operator_makes_its_change_and_no_other(name: str) -> None:
    before, after = EXAMPLES[name]
    sites = [s for s in find_sites(before, [name]) if apply(before, s) == after]
    assert len(sites) == 1
    assert OPERATORS[name].description


@pytest.mark.parametrize("name", sorted(WIDER))
def test_wider_operator_makes_its_change_and_is_in_no_default(name: str) -> None:
    before, after = WIDER_EXAMPLES[name]
    assert len([s for s in find_sites(before, [name]) if apply(before, s) == after]) == 1
    assert name not in {s.operator for s in find_sites(before)}


def test_at_least_fourteen_operators() -> None:
    assert len(OPERATORS) >= 14
    assert set(OPERATORS) == set(EXAMPLES)


@pytest.mark.parametrize("site", find_sites(PROGRAM), ids=lambda s: f"{s.operator}-{s.line}-{s.text[:12]!r}")
def test_every_change_still_parses_and_differs(site: Site) -> None:
    changed = apply(PROGRAM, site)
    ast.parse(changed)
    assert not equivalent(PROGRAM, changed)
    assert changed[: site.start] == PROGRAM[: site.start]
    assert changed.endswith(PROGRAM[site.end :])


def test_docstrings_annotations_and_comments_are_left_alone() -> None:
    touched = {s.line for s in find_sites(PROGRAM)}
    assert not touched & {1, 2, 6, 9}
    assert not [s for s in find_sites(PROGRAM) if "List" in s.before or s.before == "=="]


def test_sites_are_deterministic_and_in_text_order() -> None:
    sites = find_sites(PROGRAM)
    assert sites == find_sites(PROGRAM)
    assert [s.start for s in sites] == sorted(s.start for s in sites)


@pytest.mark.parametrize("name", sorted(n for n, o in OPERATORS.items() if o.undone_by))
def test_repair_alphabet_takes_back_what_can_be_taken_back(name: str) -> None:
    before, after = EXAMPLES[name]
    repaired = [apply(after, c) for c in repair_candidates(after) if c.operator in OPERATORS[name].undone_by]
    assert any(equivalent(before, r) for r in repaired)


def test_repair_candidates_keep_to_the_lines_asked_for() -> None:
    assert {c.line for c in repair_candidates(PROGRAM, [12])} == {12}


def test_feature_removal_keeps_signature_and_docstring() -> None:
    (site,) = find_sites(PROGRAM, [FEATURE.name])
    text = apply(PROGRAM, site)
    assert text.endswith('"""Docstring with a < b and True."""\n        raise NotImplementedError\n')
    assert site.function == "Stack.take"


def test_several_changes_at_once_and_overlap_refused() -> None:
    text = "x = 1\ny = 2\n"
    _, first, _, second = find_sites(text, ["constant_shifted"])
    assert apply_all(text, [second, first]) == "x = 2\ny = 3\n"
    with pytest.raises(SourceError, match="overlap"):
        apply_all(text, [first, first])


def test_site_of_another_text_is_refused() -> None:
    (site,) = find_sites("x = a + b\n", ["arithmetic_swapped"])
    with pytest.raises(SourceError, match="another text"):
        apply("y = a - b\n", site)


@pytest.mark.parametrize("text", ["def f(:", "x = '\0'", "(" * 5000, "é" * 2_000_001])
def test_what_is_no_program_is_refused_in_words(text: str) -> None:
    with pytest.raises(SourceError):
        find_sites(text)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_ends_are_kept(ending: str) -> None:
    text = PROGRAM.replace("\n", ending)
    for site in find_sites(text, [*OPERATORS, *WIDER, FEATURE.name]):
        changed = apply(text, site)
        ast.parse(changed)
        assert ending == "\n" or "\n" not in changed.replace("\r\n", "")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(EXAMPLES)), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_combined_files_stay_programs(names: list[str], rng: object) -> None:
    text = "".join(EXAMPLES[name][0] for name in names)
    for site in find_sites(text, [*OPERATORS, *WIDER]):
        ast.parse(apply(text, site))
