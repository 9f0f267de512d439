from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.analysis.signals import CATEGORIES, SIGNALS, TriageSignals, signals, signals_of, steps_table
from assay.analysis.signals.interface import SignalSet
from assay.analysis.signals.lexicon import EXHAUSTIONS, FAILURES, PHRASES
from tests.analysis.signals.slow import Line, slow_counts
from tests.analysis.trajectories import acted, said, trajectory

WORDS = ["flight", "cancel", "booking", "refund", "card", "window", "please", "NOW", "HELP ME NOW", "the", "tomorrow"]
RESULTS = [
    "ok", "command not found", "Permission denied", "No such file or directory", "SyntaxError: x", "missing required a",
    "Rate limit exceeded", "timed out", "connection refused", "Internal Server Error", "invalid json", "context window",
    "404 page", "the file was not found, and it timed out",
]  # fmt: skip
PHRASE = st.sampled_from([phrase for phrases in PHRASES.values() for phrase in phrases])
SENTENCE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)
TEXT = st.one_of(SENTENCE, PHRASE, st.tuples(PHRASE, SENTENCE).map(" ".join), st.text(max_size=30))
CALL = st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "2"]))
LINE = st.builds(
    Line,
    st.sampled_from(["user", "agent", "agent", "environment", "other_agent"]),
    st.none() | TEXT,
    st.lists(CALL, max_size=3).map(tuple),
    st.lists(st.sampled_from(RESULTS), max_size=3).map(tuple),
)


def table(trajectories: list[list[Line]]) -> Any:
    rows = [(f"t{n}", line) for n, lines in enumerate(trajectories) for line in lines]
    texts = pa.list_(pa.string())
    return pa.table(
        {
            "chain": pa.array([name for name, _ in rows], pa.string()),
            "actor": pa.array([line.actor for _, line in rows], pa.string()),
            "message": pa.array([line.message for _, line in rows], pa.string()),
            "tools": pa.array([[tool for tool, _ in line.calls] for _, line in rows], texts),
            "arguments": pa.array([[given for _, given in line.calls] for _, line in rows], texts),
            "outputs": pa.array([list(line.outputs) for _, line in rows], texts),
        }
    )


def counted(trajectories: list[list[Line]]) -> list[dict[str, int]]:
    found = signals(table(trajectories)).to_pylist()
    return [{signal.name: row[signal.name] for signal in SIGNALS} for row in found]


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(LINE, min_size=1, max_size=40), min_size=1, max_size=4))
def test_columns_agree_with_loops(trajectories: list[list[Line]]) -> None:
    assert counted(trajectories) == [slow_counts(lines) for lines in trajectories]


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(st.lists(LINE, min_size=90, max_size=130))
def test_only_the_last_hundred_messages_count(lines: list[Line]) -> None:
    assert counted([lines]) == [slow_counts(lines)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.just("1")), max_size=30), st.integers(2, 5))
def test_loops_agree_on_calls_alone(calls: list[tuple[str, str]], repeats: int) -> None:
    lines = [Line("agent", None, tuple(calls * repeats))]
    assert counted([lines]) == [slow_counts(lines)]


def test_a_conversation_by_hand() -> None:
    lines = [
        Line("user", "Please cancel my flight booking tomorrow"),
        Line("agent", None, (("cancel", "1"),), ("Permission denied",)),
        Line("agent", None, (("cancel", "1"),), ("Permission denied",)),
        Line("agent", None, (("cancel", "1"),), ("Request timed out",)),
        Line("user", "THIS IS USELESS, I WANT A REFUND"),
        Line("agent", "I am sorry, I will look into that for you."),
        Line("user", "tomorrow my flight booking please cancel"),
        Line("agent", "I am sorry, I will look into that for you!"),
        Line("user", "Let me talk to a human"),
    ]
    row = {name: count for name, count in counted([lines])[0].items() if count}
    assert row == {
        "execution.failure.auth_misuse": 2,
        "environment.exhaustion.timeout": 1,
        "execution.loops.retry": 1,
        "interaction.disengagement.negative_stance": 1,
        "interaction.disengagement.escalation": 1,
        "interaction.misalignment.rephrase": 1,
        "interaction.stagnation.repetition": 1,
    }
    assert signals(table([lines]))["signals.bucket"].to_pylist() == ["severe"]


def test_severity_and_quality_follow_the_published_formula() -> None:
    failing = [Line("agent", None, (("a", str(n)), ("b", str(n))), ("command not found",)) for n in range(3)]
    thanked = [Line("user", "thank you"), Line("user", "it works")]
    row = signals(table([[*failing, *thanked]])).to_pylist()[0]
    assert row["signals.execution.failure.severity"] == 2
    assert row["execution.loops.oscillation"] == 1
    assert row["signals.quality"] == pytest.approx(50 + 20 * 0.8 - 8 * 3 - 5 * 1)


@pytest.mark.parametrize(("turns", "drags"), [(9, 0), (10, 1)])
def test_a_conversation_drags_from_its_tenth_user_turn(turns: int, drags: int) -> None:
    lines = [Line("user", f"word{n}") for n in range(turns)]
    assert counted([lines])[0]["interaction.stagnation.dragging"] == drags


def test_there_are_25_signals_in_seven_categories_and_each_can_be_raised() -> None:
    assert len(SIGNALS) == 25
    assert len(CATEGORIES) == 7
    named = {*PHRASES, *(n for n, _ in FAILURES), *(n for n, _ in EXHAUSTIONS)}
    others = ("rephrase", "dragging", "repetition", "retry", "parameter_drift", "oscillation")
    assert named | {s.name for s in SIGNALS if s.name.endswith(others)} == {s.name for s in SIGNALS}


def test_one_trajectory_is_a_row_of_many() -> None:
    made = trajectory([said(0, "thanks", "user"), acted(1, "a", "command not found")])
    found = signals_of(made)
    assert found.counts == {"interaction.satisfaction.gratitude": 1, "execution.failure.tool_not_found": 1}
    assert found.severities["execution.failure"] == 1
    assert signals_of(trajectory([])).quality == 50


def test_steps_of_one_chain_apart_are_refused() -> None:
    lines = [Line("agent", "a")]
    apart = pa.concat_tables([table([lines, lines]), table([lines])])
    with pytest.raises(ValueError, match="sort the table"):
        signals(apart)


def test_the_published_set_is_a_plugin() -> None:
    found = TriageSignals()
    assert isinstance(found, SignalSet)
    counts = found.counts(steps_table([trajectory([said(0, "thanks", "user")])]))
    assert counts.column_names == ["chain", *TriageSignals.signals]
