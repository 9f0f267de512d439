"""Computes all signals of many trajectories over the columns of the store's table `steps`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lexicon import EXHAUSTIONS, FAILURES
from .loops import drifts, oscillations, retries
from .names import CATEGORIES, SIGNALS, category_of
from .repeated import repeats
from .text import HEAD_SHARE, LAST_MESSAGES, MOST_CHARACTERS, is_rephrased, meaningful, phrase_signals

COLUMNS = ("chain", "actor", "message", "tools", "arguments", "outputs")
DRAGGING, DRAGGING_AS_DOCUMENTED = 0.5, 0.3
"""Minimum efficiency of a conversation: in the published code, and in its documentation."""
TURNS, DECAY = 5, 0.25
REPHRASED_WITHIN = 3
BUCKETS = ((75.0, "excellent"), (60.0, "good"), (40.0, "neutral"), (25.0, "poor"))
_Ints = NDArray[np.int64]
_AGENTS = ("agent", "other_agent")


class _Stream:
    """Messages of all trajectories: users, agents, calls and results; the last 100 of each."""

    def __init__(self, steps: Any) -> None:
        import pyarrow.compute as pc

        chains = steps["chain"].combine_chunks().dictionary_encode()
        self.names = chains.dictionary
        owner = chains.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if len(owner) and int(np.count_nonzero(np.diff(owner))) + 1 != len(self.names):
            raise ValueError("steps of one chain do not stand together; sort the table by chain and index")
        self.size = len(self.names)
        said = steps["message"].combine_chunks()
        tools, outputs = steps["tools"].combine_chunks(), steps["outputs"].combine_chunks()
        has = pc.fill_null(pc.greater(pc.utf8_length(said), 0), False).to_numpy(zero_copy_only=False).astype(np.int64)
        called, came = _lengths(tools), _lengths(outputs)
        after = np.cumsum(has + called + came)
        total = np.zeros(self.size, dtype=np.int64)
        np.maximum.at(total, owner, after)
        start = after - has - called - came
        self._least = total - LAST_MESSAGES
        self.said = _latest_rows(np.flatnonzero(has), start[has > 0], owner, self._least)
        self.texts, self.owner = said, owner
        self.actor = steps["actor"].combine_chunks()
        self.calls, self.call_owner = self._flat(owner, called, start + has)
        self.tool = pc.list_flatten(tools).take(_indices(self.calls))
        self.arguments = _arguments(steps, called).take(_indices(self.calls))
        self.came, self.output_owner = self._flat(owner, came, start + has + called)
        self.output = pc.list_flatten(outputs).take(_indices(self.came))

    def _flat(self, owner: _Ints, lengths: _Ints, start: _Ints) -> tuple[_Ints, _Ints]:
        """Returns kept positions in a flattened list column, and the trajectory of each."""
        parents = np.repeat(np.arange(len(lengths)), lengths)
        within = np.arange(len(parents)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        place = start[parents] + within
        kept = np.flatnonzero(place >= self._least[owner[parents]])
        return kept.astype(np.int64), owner[parents[kept]]

    def by(self, actors: tuple[str, ...]) -> tuple[_Ints, Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        of = pc.is_in(self.actor, value_set=pa.array(actors)).to_numpy(zero_copy_only=False)
        rows = self.said[of[self.said]]
        return self.owner[rows], _cut(self.texts.take(_indices(rows)))


def _lengths(column: Any) -> _Ints:
    import pyarrow.compute as pc

    found: _Ints = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _indices(rows: _Ints) -> Any:
    import pyarrow as pa

    return pa.array(rows)


def _latest_rows(rows: _Ints, place: _Ints, owner: _Ints, least: _Ints) -> _Ints:
    return rows[place >= least[owner[rows]]].astype(np.int64)


def _arguments(steps: Any, called: _Ints) -> Any:
    import pyarrow.compute as pc

    column = steps["arguments"].combine_chunks()
    if not np.array_equal(_lengths(column), called):
        raise ValueError("a step has not as many arguments as tools")
    return pc.list_flatten(column)


def _cut(texts: Any) -> Any:
    """Returns the texts, long ones cut to the first 20% and last 80% of 2,000 characters."""
    import pyarrow.compute as pc

    texts = pc.fill_null(texts, "")
    long = pc.greater(pc.utf8_length(texts), MOST_CHARACTERS)
    if not pc.any(long).as_py():
        return texts
    head = int(MOST_CHARACTERS * HEAD_SHARE)
    first = pc.utf8_slice_codeunits(texts, 0, head)
    last = pc.utf8_slice_codeunits(texts, -(MOST_CHARACTERS - head))
    return pc.if_else(long, pc.binary_join_element_wise(first, last, ""), texts)


def signals(steps: Any) -> Any:
    """Counts of the 25 signals, with what follows from them.

    Args:
        steps: Arrow table with the columns `COLUMNS` as in the store's table `steps` (a row a step; those of one chain
            together and in order; `tools`, `arguments` and `outputs` are lists of strings).

    Returns:
        Arrow table with a row a trajectory, in the order in which they appear: `chain`; a column of int64 for each of
        `SIGNALS`; `signals.<category>.count` and `.severity` (0 to 3) for each of `CATEGORIES`; `signals.quality` (0 to
        100) and `signals.bucket`.

    Raises:
        ValueError: The steps of a chain do not stand together, or a step's arguments do not fit its tools.
        KeyError: A column is missing.
    """
    import pyarrow as pa

    stream = _Stream(steps)
    counts = {signal.name: np.zeros(stream.size, dtype=np.int64) for signal in SIGNALS}
    turns = _of_users(stream, counts)
    owner, texts = stream.by(_AGENTS)
    counts["interaction.stagnation.repetition"] = _repeated(owner, texts, stream.size)
    _of_loops(stream, counts)
    _of_results(stream, counts)
    columns: dict[str, Any] = {"chain": stream.names, **counts}
    for category in CATEGORIES:
        total = sum((counts[s.name] for s in SIGNALS if category_of(s.name) == category), np.int64(0))
        columns[f"signals.{category}.count"] = total
        columns[f"signals.{category}.severity"] = severities(np.asarray(total, dtype=np.int64))
    scores = quality(columns, turns)
    return pa.table({**columns, "signals.quality": scores, "signals.bucket": buckets(columns, scores)})


def _repeated(owner: _Ints, texts: Any, size: int) -> _Ints:
    import pyarrow as pa
    import pyarrow.compute as pc

    return repeats(owner, pc.utf8_lower(texts).cast(pa.large_string()), size)


def _of_users(stream: _Stream, counts: dict[str, _Ints]) -> _Ints:
    """Computes signals of user messages. Returns the number of user turns per trajectory."""
    owner, texts = stream.by(("user",))
    turns = np.bincount(owner, minlength=stream.size).astype(np.int64)
    efficiency = 1 / (1 + DECAY * np.maximum(turns - TURNS, 0))
    counts["interaction.stagnation.dragging"] = (efficiency < DRAGGING).astype(np.int64)
    encoded = texts.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    distinct = encoded.dictionary.to_pylist()
    raised = [phrase_signals(text) for text in distinct]
    for name in {name for names in raised for name in names}:
        has = np.fromiter((name in names for names in raised), dtype=bool, count=len(raised))
        counts[name] = np.bincount(owner[has[codes]], minlength=stream.size).astype(np.int64)
    words = [meaningful(text) for text in distinct]
    rephrased = np.zeros(len(owner), dtype=bool)
    for back in range(1, REPHRASED_WITHIN + 1):
        for later in np.flatnonzero(owner[back:] == owner[:-back]).tolist():
            rephrased[later + back] |= is_rephrased(words[codes[later]], words[codes[later + back]])
    name = "interaction.misalignment.rephrase"
    counts[name] = np.bincount(owner[rephrased], minlength=stream.size).astype(np.int64)
    return turns


def _of_loops(stream: _Stream, counts: dict[str, _Ints]) -> None:
    import pyarrow.compute as pc

    tool = _codes(pc.fill_null(stream.tool, ""))
    arguments = _codes(pc.fill_null(stream.arguments, ""))
    owner = stream.call_owner
    counts["execution.loops.retry"] = retries(owner, tool, arguments, stream.size)
    counts["execution.loops.parameter_drift"] = drifts(owner, tool, arguments, stream.size)
    counts["execution.loops.oscillation"] = oscillations(owner, tool, stream.size)


def _codes(texts: Any) -> _Ints:
    found: _Ints = texts.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _of_results(stream: _Stream, counts: dict[str, _Ints]) -> None:
    import pyarrow.compute as pc

    for patterns in (FAILURES, EXHAUSTIONS):
        owner, texts = stream.output_owner, _cut(stream.output)
        # One pass over all text finds the few results in which any pattern is.
        whole = "|".join(f"(?:{pattern})" for _, pattern in patterns)
        rows = np.flatnonzero(_matches(texts, whole))
        owner, texts = owner[rows], pc.take(texts, _indices(rows.astype(np.int64)))
        for name, pattern in patterns:
            has = _matches(texts, pattern)
            counts[name] = np.bincount(owner[has], minlength=stream.size).astype(np.int64)
            rest = np.flatnonzero(~has).astype(np.int64)
            owner, texts = owner[rest], pc.take(texts, _indices(rest))


def _matches(texts: Any, pattern: str) -> NDArray[np.bool_]:
    import pyarrow.compute as pc

    found = pc.match_substring_regex(texts, pattern, ignore_case=True)
    as_bools: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False).astype(bool)
    return as_bools


def severities(counts: _Ints) -> _Ints:
    """Returns 0 for none, 1 for one or two, 2 for three or four, 3 for five or more."""
    return np.select([counts >= 5, counts >= 3, counts >= 1], [3, 2, 1], 0).astype(np.int64)


def _is_severe(columns: dict[str, Any]) -> NDArray[np.bool_]:
    severe: NDArray[np.bool_] = (
        (columns["interaction.disengagement.escalation"] > 0)
        | (columns["interaction.disengagement.quit"] > 0)
        | (columns["signals.interaction.disengagement.severity"] >= 3)
        | (columns["signals.interaction.stagnation.severity"] >= 3)
    )
    return severe


def quality(columns: dict[str, Any], turns: _Ints) -> NDArray[np.float64]:
    """Returns the published score of each trajectory, 0 to 100; 0 if severe. `turns` are its user turns."""
    satisfied = columns["signals.interaction.satisfaction.count"]
    bonus = np.select([satisfied >= 3, satisfied == 2, satisfied == 1], [0.95, 0.8, 0.6], 0.0)
    misaligned = columns["signals.interaction.misalignment.count"] / np.maximum(turns, 1)
    stagnant = columns["signals.interaction.stagnation.count"]
    score = (
        50.0
        + 20.0 * bonus
        - 10.0 * columns["signals.interaction.disengagement.severity"]
        - np.where(misaligned > 0.3, 15.0, 0.0)
        - np.where(stagnant > 2, 8.0 * columns["signals.interaction.stagnation.severity"], 0.0)
        - 8.0 * columns["signals.execution.failure.count"]
        - 5.0 * columns["signals.execution.loops.count"]
        - 3.0 * columns["signals.environment.exhaustion.count"]
    )
    return np.where(_is_severe(columns), 0.0, np.clip(score, 0.0, 100.0))


def buckets(columns: dict[str, Any], scores: NDArray[np.float64]) -> list[str]:
    """Returns words: from 75 excellent, 60 good, 40 neutral, 25 poor, otherwise severe."""
    severe = _is_severe(columns)
    conditions = [severe, *(scores >= least for least, _ in BUCKETS)]
    chosen = np.select(conditions, ["severe", *(name for _, name in BUCKETS)], "severe")
    return [str(name) for name in chosen.tolist()]
