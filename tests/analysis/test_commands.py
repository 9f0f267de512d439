"""The reader of shell text."""

from __future__ import annotations

import gc
import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.commands import simple_commands

CASES = {
    "cd /x && pytest -q 2>&1 | tail -5": [("cd", "/x"), ("pytest", "-q"), ("tail", "-5")],
    "echo 'a && b'; echo \"c | d\"": [("echo", "a && b"), ("echo", "c | d")],
    "bash -lc 'cd a; ls | wc -l'": [("bash", "-lc", "cd a; ls | wc -l"), ("cd", "a"), ("ls",), ("wc", "-l")],
    "bash -euo pipefail -c 'ls'": [("bash", "-euo", "pipefail", "-c", "ls"), ("ls",)],
    "for f in *.py; do echo $f; done | sort": [("echo", "$f"), ("sort",)],
    "case $x in a) ls;; b|c) pwd;; esac": [("ls",), ("pwd",)],
    "if [ -f a ]; then ls; else pwd; fi": [("[", "-f", "a", "]"), ("ls",), ("pwd",)],
    "f() { ls; }; f": [("ls",), ("f",)],
    "diff <(ls a) b": [("diff", "<(ls a)", "b"), ("ls", "a")],
    'echo "$(git log --all | head)" `ls -a`': [
        ("echo", "$(git log --all | head)", "`ls -a`"),
        ("git", "log", "--all"),
        ("head",),
        ("ls", "-a"),
    ],
    "[[ -f a && -d b ]] && ls": [("[[", "-f", "a", "&", "&", "-d", "b", "]]"), ("ls",)],
    "echo a#b # c; rm x\nls": [("echo", "a#b"), ("ls",)],
    "echo a\\\n b": [("echo", "a", "b")],
    "cat <<'E' > a.py\nrm x && y\nE\nls": [("cat",), ("ls",)],
    "sh <<E\nls\npwd\nE": [("sh",), ("ls",), ("pwd",)],
    "(cd a && make) || true": [("cd", "a"), ("make",), ("true",)],
    "echo 'open && ls": [("echo", "open && ls")],
    "x=$((1 + 2)); ls": [(), ("ls",)],
    "eval 'ls; pwd'": [("eval", "ls; pwd"), ("ls",), ("pwd",)],
    "find . -exec rm {} \\;": [("find", ".", "-exec", "rm", "{}", ";"), ("rm", "{}")],
    "a\x0cb\u2003c": [("a\x0cb\u2003c",)],
    "": [],
}


@pytest.mark.parametrize("text", CASES, ids=range(len(CASES)))
def test_commands_are_read_as_a_shell_would_split_them(text: str) -> None:
    assert [each.words for each in simple_commands(text)] == CASES[text]


def test_a_command_keeps_what_joins_it_and_where_its_output_goes() -> None:
    first, second, third = simple_commands("A=1 make 2> log && cat <<E >> out\ntext\nE\nls")
    assert (first.assignments, first.redirects) == (("A=1",), ((">", "log", 2),))
    assert (second.joined, second.stdin, second.redirects) == ("&&", "text", ((">>", "out", None),))
    assert third.joined == ";"


@pytest.mark.parametrize(
    ("text", "effective"),
    [
        ("sudo -u me env A=1 timeout -k 5 60 python -m pytest", ("python", "-m", "pytest")),
        ("uv run --with x pytest", ("pytest",)),
        ("docker exec -e A=1 box make test", ("make", "test")),
        ("command -v git", ("command", "-v", "git")),
        ("xargs -n 1 grep x", ("grep", "x")),
        ("sudo", ("sudo",)),
    ],
)
def test_programs_that_run_another_are_seen_through(text: str, effective: tuple[str, ...]) -> None:
    assert simple_commands(text)[0].effective == effective


@given(st.text(alphabet="ab '\"\\$`(){}<>|&;\n#[]=-1*E", max_size=60))
def test_any_text_has_an_answer(text: str) -> None:
    for each in simple_commands(text):
        assert each.depth <= 26


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5))
def test_quoted_words_come_back(words: list[str]) -> None:
    command = simple_commands(shlex.join(["run", *words]))[0]
    assert command.words == ("run", *words)


@pytest.mark.parametrize("piece", ["(", "$(", "`", "<<E\n", "bash -c '", '"$(', "[[ ", "case ", "${", "'\\''", "<("])
def test_hostile_text_takes_linear_time(piece: str) -> None:
    def cpu_s(size: int) -> float:
        gc.disable()  # a collection walks all that earlier tests of the process left
        try:
            started = time.process_time()
            simple_commands(piece * (size // len(piece)))
            return time.process_time() - started
        finally:
            gc.enable()

    small = cpu_s(15_000)
    assert cpu_s(150_000) < 40 * small + 0.5  # 10 where it is linear, 100 where it is quadratic


@pytest.mark.parametrize(
    "form", ['bash -c "$({})"', "eval $({}) $(true)", 'sh <<< "a $({}) b"', 'bash -c "`{}`"', 'bash -c "<({}) $(true)"']
)
@pytest.mark.parametrize("levels", [14, 24, 60])
def test_scripts_inside_each_other_take_linear_time(form: str, levels: int) -> None:
    text = "true " + "x " * 50
    for _ in range(levels):
        text = form.format(text)
    started = time.process_time()
    found = simple_commands(text + "; bash -c 'cat hidden'")
    assert time.process_time() - started < 2.5
    assert len(found) < 20_000
    assert ("cat", "hidden") in [each.words for each in found]


def test_a_substitution_in_a_script_that_is_passed_on_is_parsed_once() -> None:
    found = [(each.words, each.depth) for each in simple_commands('bash -c "$(bash -c "$(ls a) b") c"')]
    assert found.count((("ls", "a"), 2)) == 1
    assert [words for words, _ in found].count(("ls", "a")) == 1
    assert ("$(ls a)", "b") in [words for words, _ in found]
    assert ('$(bash -c "$(ls a) b")', "c") in [words for words, _ in found]
