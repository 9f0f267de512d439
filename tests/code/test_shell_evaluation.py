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
        'bash -c "echo $got"',
    ],
)
def test_text_that_the_script_does_not_count_is_evaluated(line: str):
    assert [found.line for found in find_evaluations(f"#!/bin/bash\n{line}\n")] == [2]


@pytest.mark.parametrize(
    "line",
    [
        "score=0; score=$((score + 1)); ((score++)); (( score == 3 ))",
        'got=$(prog); [ "$got" -eq 7 ]',
        'got=$(prog); [[ "$got" == 7 ]]',
        "[[ $? -eq 0 && $# -gt 1 ]]",
        "[[ $(prog | wc -l) -eq 7 ]]",
        "lines=$(wc -l < out); [[ $lines -eq 7 ]]",
        "for n in 1 2 3; do (( n > 1 )); done",
        "# (( got ))",
        'got=$(prog); echo "${got:-none}" "${got:0:3}" "${#got}"',
        "bash /tests/more.sh; prog | tee out.sh",
    ],
)
def test_what_a_script_counts_or_compares_as_text_is_not_reported(line: str):
    assert not find_evaluations(f"#!/bin/bash\n{line}\n")
