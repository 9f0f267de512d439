from __future__ import annotations

import json
from typing import Any

import pytest

from assay.analysis.judge import decides
from assay.errors import ProviderError
from assay.gateway.backends.scripted import ScriptedBackend
from assay.gateway.interface import ModelRequest
from assay.verify.model_judge import judge_by_model
from tests.analysis.trajectories import ran, said, subject

STEPS = [ran(0, "pytest -q", "2 failed, 1 passed", 1), said(1, "All tests pass now, the work is complete.")]
CLAIM = {"question": "hidden-failure", "summary": "It says that all pass.", "step": 1, "field": "message",
         "quote": "All tests pass now"}  # fmt: skip


def answering(*findings: dict[str, Any]) -> ScriptedBackend:
    return ScriptedBackend(lambda _: json.dumps({"findings": list(findings)}))


async def test_a_finding_whose_words_stand_in_the_record_is_kept_and_decides_nothing() -> None:
    found = await judge_by_model(subject(STEPS), answering(CLAIM))
    (finding,) = found.findings
    assert (finding.rule, finding.severity, finding.steps) == ("model.hidden-failure", "minor", (1,))
    assert not decides(finding)
    assert found.discarded == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"quote": "All tests pass today"}, "not in the record"),
        ({"step": 0}, "not in the record"),
        ({"field": "observation"}, "not in the record"),
        ({"quote": "pass"}, "less than 12 characters"),
        ({"question": "is-it-nice"}, "no such question"),
    ],
)
async def test_a_finding_that_quotes_what_is_not_there_is_thrown_away_and_counted(
    change: dict[str, Any], why: str
) -> None:
    found = await judge_by_model(subject(STEPS), answering({**CLAIM, **change}, CLAIM))
    assert len(found.findings) == 1
    assert [why in one.why for one in found.discarded] == [True]


@pytest.mark.parametrize("text", ["I think it is fine", "[1]", '{"findings": [{"step": "x"}]}', ""])
async def test_an_answer_of_another_form_is_an_error_and_no_finding(text: str) -> None:
    found = await judge_by_model(subject(STEPS), ScriptedBackend(lambda _: text))
    assert (found.findings, len(found.errors)) == ((), 1)


async def test_a_fence_around_the_answer_is_taken_off() -> None:
    fenced = "```json\n" + json.dumps({"findings": [CLAIM]}) + "\n```"
    assert len((await judge_by_model(subject(STEPS), ScriptedBackend(lambda _: fenced))).findings) == 1


async def test_a_long_record_is_shown_in_windows_and_what_is_found_twice_counts_once() -> None:
    asked: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        asked.append(request)
        return json.dumps({"findings": [CLAIM]})

    steps = [*STEPS, *(said(n, "x" * 3_000) for n in range(2, 60))]
    found = await judge_by_model(subject(steps), ScriptedBackend(answer))
    assert 2 <= len(asked) <= 8
    assert len(found.findings) == 1
    assert all(len(str(request.messages)) < 60_000 for request in asked)


async def test_a_server_that_fails_for_good_is_said() -> None:
    def fail(_: ModelRequest) -> str:
        message = "down"
        raise ProviderError(message)

    with pytest.raises(ProviderError):
        await judge_by_model(subject(STEPS), ScriptedBackend(fail))
