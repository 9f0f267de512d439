"""Rows from recorded calls: pure, so no model here."""

from __future__ import annotations

from typing import Any

import pytest

from assay.errors import UserError
from assay.gateway.tokens import BrokenChain, build_token_rows, certify, context_of
from assay.records import ModelCall, SpanProof
from tests.gateway.tokens.scoring import count_strict_rows

pytestmark = pytest.mark.newest
GOOD = SpanProof(certified=True)


def call(name: str, prompt: tuple[int, ...], sampled: tuple[int, ...], **more: Any) -> ModelCall:
    given: dict[str, Any] = {
        "branch": "a",
        "certificate": GOOD,
        "logprobs": tuple(-float(token) for token in sampled),
    } | more
    return ModelCall(name, "openai-chat", "m", {}, {}, prompt_token_ids=prompt, completion_token_ids=sampled, **given)


LINE = [
    call("a", (1, 2), (3, 4)),
    call("b", (5,), (6,), parent="a", shared_tokens=4),
    call("c", (7,), (8, 9), parent="b", shared_tokens=6),
]


def test_a_line_of_calls_is_one_row_with_every_sampled_token_trained_once() -> None:
    (row,) = build_token_rows(LINE).rows
    assert row.token_ids == (1, 2, 3, 4, 5, 6, 7, 8, 9)
    assert [token for token, trained in zip(row.token_ids, row.mask, strict=True) if trained] == [3, 4, 6, 8, 9]
    assert row.logprobs == (None, None, -3.0, -4.0, None, -6.0, None, -8.0, -9.0)
    assert [(span.call, span.start, span.end) for span in row.spans] == [("a", 2, 4), ("b", 5, 6), ("c", 7, 9)]


def test_siblings_are_rows_that_share_context_but_train_it_once() -> None:
    again = call("d", (5,), (66,), parent="a", shared_tokens=4, branch="d", cause="resample")
    main, other = build_token_rows([*LINE, again]).rows
    assert [span.trained for span in main.spans] == [True, True, True]
    assert [span.trained for span in other.spans] == [False, True]
    assert other.token_ids == (1, 2, 3, 4, 5, 66)


def test_a_failed_call_that_was_asked_again_leaves_one_row() -> None:
    failed = ModelCall("x", "openai-chat", "m", {}, None, parent="a", branch="a", error="500")
    again = call("d", (5,), (6,), parent="a", shared_tokens=4, branch="d", cause="resample")
    (row,) = build_token_rows([LINE[0], failed, again]).rows
    assert [span.trained for span in row.spans] == [True, True]


def test_a_call_that_left_its_parents_tokens_begins_a_row() -> None:
    left = call("d", (9, 9), (6,), parent="a", shared_tokens=3, branch="d", cause="rewritten")
    assert [row.token_ids for row in build_token_rows([LINE[0], left]).rows] == [(1, 2, 3, 4), (1, 2, 3, 9, 9, 6)]


def test_uncertified_spans_are_refused_loudly(caplog: pytest.LogCaptureFixture) -> None:
    calls = [*LINE[:2], call("c", (7,), (8, 9), parent="b", shared_tokens=6, certificate=None)]
    with pytest.raises(UserError, match=r"1 spans \(2 sampled tokens\) are not certified: call c"):
        build_token_rows(calls)
    masked = build_token_rows(calls, uncertified="mask")
    assert "not trained" in caplog.text
    assert (sum(masked.rows[0].mask), masked.refused[0].call) == (3, "c")
    assert sum(build_token_rows(calls, uncertified="keep").rows[0].mask) == 5


@pytest.mark.parametrize(("shared", "parent"), [(99, "a"), (2, "gone"), (1, None)])
def test_a_broken_chain_is_an_error_and_no_certificate(shared: int, parent: str | None) -> None:
    calls = {"a": LINE[0], "b": call("b", (5,), (6,), parent=parent, shared_tokens=shared)}
    with pytest.raises(BrokenChain, match="call b"):
        context_of(calls, "b")
    assert not certify(calls, "b", (1, 2)).certified


def test_a_certificate_names_the_first_position_that_differs() -> None:
    calls = {one.id: one for one in LINE}
    assert certify(calls, "c", (1, 2, 3, 4, 5, 6, 7)) == GOOD
    assert certify(calls, "c", (1, 2, 3, 4, 0, 6, 7)).position == 4
    assert certify(calls, "c", (1, 2, 3)).position == 3


def test_the_peers_rule_needs_the_whole_row_at_the_front() -> None:
    assert count_strict_rows([((1, 2), (3,)), ((1, 2, 3, 4), (5,)), ((1, 2, 3, 4, 5, 6), (7,))]) == 1
    assert count_strict_rows([((1, 2), (3,)), ((1, 2, 33, 4), (5,)), ((1, 2, 33, 4, 55, 6), (7,))]) == 3


def test_what_cannot_be_put_together_is_refused_and_spoils_no_other_row() -> None:
    calls = [LINE[0], call("b", (5,), (6,), parent="gone", shared_tokens=2)]
    with pytest.raises(UserError, match="call b: 2 tokens are shared with call gone, which is not stored"):
        build_token_rows(calls)
    kept = build_token_rows(calls, uncertified="keep")
    assert ([row.branch for row in kept.rows], [one.call for one in kept.refused]) == ([LINE[0].branch or "a"], ["b"])
