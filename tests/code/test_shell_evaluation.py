"""Places where a shell script evaluates text."""

from __future__ import annotations

import pytest

from assay.code.shell_evaluation import find_evaluations


@pytest.mark.parametrize(
    "line",
    [
        '[[ "$(prog 3)" -eq 7 ]] && score=1',
        "got=$(prog); [[ $got -ge 7 ]]",
        "got=`prog`; (( got == 7 ))",
        "read -r got < out; let total=got+1",
        "check() { [[ $1 -eq 7 ]]; }",
        "declare -i got=$(prog)",
        'got=$(prog); echo "${table[$got]}"',
        'got=$(prog); echo "${text:got}"',
        "for got in $(prog); do (( got > 3 )); done",
        'eval "$(prog)"',
        "prog | bash",
        "source <(prog)",
        "prog > out.sh; . ./out.sh",
        "prog > out.sh && source out.sh",
        'bash -c "echo $got"',
        "got=$(prog); [ $got = 7 ]",
        "if test $(prog) = 7; then score=1; fi",
        'python3 -c "print($got == 7)"',
        'awk "BEGIN { exit !($got > 6) }"',
        'echo "$got == 7" | bc',
    ],
)
def test_text_that_the_script_does_not_count_is_evaluated(line: str):
    assert [found.line for found in find_evaluations(f"#!/bin/bash\n{line}\n")] == [2]


def test_what_is_too_long_to_look_at_is_reported():
    assert [found.line for found in find_evaluations("\n" + "x" * 5000)] == [2]
    assert [found.line for found in find_evaluations("x\n" * 200_000)] == [1]


@pytest.mark.parametrize(
    "line",
    [
        "score=0; score=$((score + 1)); ((score++)); (( score == 3 ))",
        'got=$(prog); [ "$got" -eq 7 ]',
        'got=$(prog); [[ "$got" == 7 ]]',
        "[[ $? -eq 0 && $# -gt 1 ]]",
        "score=0; [ $score = 1 ]; [ $? -eq 0 ]",
        '[ "$(prog "$1")" = "$(cat "${2:-$1}")!" ]',
        'python3 /tests/check.py "$got"; python3 -c \'print(7)\' "$got"',
        "awk -v got=\"$got\" 'BEGIN { exit got != 7 }'",
        "[[ $(prog | wc -l) -eq 7 ]]",
        "lines=$(wc -l < out); [[ $lines -eq 7 ]]",
        "for n in 1 2 3; do (( n > 1 )); done",
        "# (( got ))",
        'got=$(prog); echo "${got:-none}" "${got:0:3}" "${#got}"',
        "bash /tests/more.sh; prog | tee out.sh",
        "set -e; . /tests/setup.sh; source '/opt/assay/env'",
        "cp . /tmp/copy; find . -name out",
    ],
)
def test_what_a_script_counts_or_compares_as_text_is_not_reported(line: str):
    assert not find_evaluations(f"#!/bin/bash\n{line}\n")
