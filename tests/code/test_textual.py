"""Textual mutation operators: what they touch, and above all what they leave alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.code.operators import apply
from assay.code.textual import language_of, textual_sites

pytestmark = pytest.mark.quick


def changed(text: str, family: str, operator: str) -> list[str]:
    return [apply(text, site) for site in textual_sites(text, family) if site.operator == operator]


@pytest.mark.parametrize(
    ("family", "operator", "before", "after"),
    [
        ("c", "text_comparison", "if (a <= b) x();\n", "if (a < b) x();\n"),
        ("c", "text_comparison", "if (a === b) x();\n", "if (a !== b) x();\n"),
        ("shell", "text_comparison", "[ $a -eq 3x ] || exit\n", "[ $a -ne 3x ] || exit\n"),
        ("shell", "text_logic", "make && make check\n", "make || make check\n"),
        ("c", "text_number", "int a = 10; // 11\n", "int a = 11; // 11\n"),
        ("c", "text_truth", "ok = true; s = 'true'\n", "ok = false; s = 'true'\n"),
        ("c", "text_arithmetic", "x = a + b - 'c - d'\n", "x = a - b - 'c - d'\n"),
        ("c", "text_line", "a\n  f(x, y);\nb\n", "a\nb\n"),
        ("shell", "text_line", "cd /x\nif a; then\n", "if a; then\n"),
        ("sql", "text_logic", "where a AND b\n", "where a OR b\n"),
    ],
)
def test_each_operator_on_an_example(family: str, operator: str, before: str, after: str) -> None:
    assert after in changed(before, family, operator)


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("c", "// if (a == b) return 1;\n"),
        ("c", 'puts("a == b && 3");\n'.replace("puts(", "x ? y : (")),
        ("c", "std::vector<int> x\n"),
        ("shell", "# make && make check 3\n"),
        ("shell", 'echo_it="a && b == 3"|cat\n'),
        ("shell", "cat <in >out|wc\n"),
        ("ruby", "# a and b == 2\n"),
    ],
)
def test_comments_strings_and_redirections_are_left_alone(family: str, text: str) -> None:
    assert textual_sites(text, family) == ()


def test_only_the_lines_asked_for() -> None:
    assert {site.line for site in textual_sites("x = 1;\ny = 2;\nz = 3;\n", "c", [2])} == {2}


@pytest.mark.parametrize(
    ("path", "first", "family"),
    [("/a/b.GO", b"", "c"), ("/a/run", b"#!/bin/bash\n", "shell"), ("/a/run", b"#!/usr/bin/env node\n", "c"),
     ("/a/run", b"bash\n", None), ("/a.csv", b"", None)],
)  # fmt: skip
def test_language_by_name_or_first_line(path: str, first: bytes, family: str | None) -> None:
    assert language_of(path, first) == family


@given(
    st.text(alphabet="ab1 \"'`#/\\&|<>=-+\n;()truefals", max_size=80), st.sampled_from(["c", "shell", "ruby", "sql"])
)
def test_any_text_gives_sites_that_fit_it(text: str, family: str) -> None:
    for site in textual_sites(text, family):
        assert apply(text, site) != text
        assert "\n" not in site.before.removesuffix("\n")


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        ("shell_option", "ls | sort -r | tail -n 3\n", "ls | sort | tail -n 3\n"),
        ("shell_order", "ls | sort | cat\n", "ls | sort -r | cat\n"),
        ("shell_order", "sort -r names\n", "sort -r -n names\n"),
        ("shell_order", "head -n 2 names # tail\n", "tail -n 2 names # tail\n"),
        ("shell_stage", "ls | grep -E 'a|b' | sort\n", "ls | sort\n"),
        ("shell_stage", "ls | sort || exit 1\n", None),
        ("shell_quote", 'rm "$folder/$name" "$1"\n', 'rm "$folder/$name" $1\n'),
        ("shell_quote", "echo '\"$x\"'\n", None),
        ("shell_redirection", "echo 'a > b' > out\n", "echo 'a > b' >> out\n"),
        ("shell_redirection", "run 2>&1\n", None),
        ("shell_pattern", "rm db-*.tar\n", "rm db-*\n"),
        ("shell_number", "exit 1\n", "exit 0\n"),
        ("shell_number", "echo no >&2\n", None),
        ("text_comparison", "rm -f names\n", None),
        ("text_comparison", "[ -f names ]\n", "[ -d names ]\n"),
        ("shell_number", "tail -n +$((keep + 1)) $1\n", "tail -n +$((keep + 0)) $1\n"),
    ],
)
def test_shell_programs_have_operators_of_their_own(operator: str, before: str, after: str | None) -> None:
    made = changed(before, "shell", operator)
    assert (after in made) if after is not None else (made == [])
    assert not [site for site in textual_sites(before, "c") if site.operator == operator]
