"""The 25 triage signals over the steps of many trajectories, from the store's columns on.

Steps are made up: users that ask, thank and complain, agents that say what they do, calls of a few tools with arguments
that vary, results of some lines of which a few are errors. Texts are drawn from pools that are large enough that no two
trajectories are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from assay.analysis.signals import SIGNALS, signals
from benchmarks._measure import cost_of

__all__ = ["MOST_S", "measure_signals"]

MOST_S = 60.0
"""What all signals of 2 million steps may take on one core, in CPU seconds."""
_WORDS = """account archive branch build cache change client column config count date default delete error event field
    file filter flight format function header import index input item key label layer list load log match
    merge method mode model module name number object option order output page parse path pattern price query
    queue range read record report request result return route row rule save schema score search section
    select server set sort source state status step store string table target task test text time token total
    type update user value version view window write""".split()  # noqa: SIM905
_ASKED = ("thank you", "that is not right", "it works", "I give up", "yes please", "THIS IS USELESS, DO IT NOW")
_FAILED = ("Permission denied", "No such file or directory", "timed out", "command not found", "SyntaxError: near x")
_TOOLS = ("shell", "read", "edit", "search", "submit")


def measure_signals(steps: int = 2_000_000, each: int = 20) -> dict[str, Any]:
    """CPU seconds for all signals over `steps` steps, `each` of a trajectory, and how often the signals were raised."""
    table = _steps(steps // each, each)
    held: dict[str, Any] = {}
    cost = cost_of(lambda: held.update(found=signals(table)))
    found = held["found"]
    return {
        "steps": table.num_rows,
        "trajectories": found.num_rows,
        "text_mb": round(table.nbytes / 1e6, 1),
        "cpu_s": cost.cpu_s,
        "most_cpu_s": MOST_S,
        "raised": {s.name: int(found[s.name].to_numpy().sum()) for s in SIGNALS},
    }


def _steps(trajectories: int, each: int) -> pa.Table:
    draw = np.random.default_rng(0)
    rows = trajectories * each
    is_user = np.tile(np.arange(each) % 7 == 0, trajectories)
    calls = ~is_user
    said = _texts(draw, 200_000, 14)
    asked = pa.array([*(_ASKED * 400), *_texts(draw, 20_000, 9).to_pylist()])
    came = pa.array([f"{text}\n{_FAILED[n // 40 % 5]}" if n % 40 == 0 else text for n, text in enumerate(_long(draw))])
    message = pa.chunked_array(
        [
            pa.array(
                np.where(
                    is_user,
                    np.asarray(asked.take(pa.array(draw.integers(0, len(asked), rows))), dtype=object),
                    np.asarray(said.take(pa.array(draw.integers(0, len(said), rows))), dtype=object),
                ),
                pa.string(),
            )
        ]
    )
    tool = pa.array(_TOOLS).take(pa.array(draw.integers(0, len(_TOOLS), rows)[calls]))
    given = pa.array([f'{{"command": "{text}"}}' for text in said.slice(0, 50_000).to_pylist()])
    arguments = given.take(pa.array(draw.integers(0, len(given), rows)[calls]))
    outputs = came.take(pa.array(draw.integers(0, len(came), rows)[calls]))
    offsets = pa.array(np.concatenate(([0], np.cumsum(calls))).astype(np.int32))
    return pa.table(
        {
            "chain": pa.array(np.repeat(np.arange(trajectories), each)).cast(pa.string()),
            "actor": pa.array(np.where(is_user, "user", "agent")),
            "message": message,
            "tools": pa.ListArray.from_arrays(offsets, tool),
            "arguments": pa.ListArray.from_arrays(offsets, arguments),
            "outputs": pa.ListArray.from_arrays(offsets, outputs),
        }
    )


def _texts(draw: np.random.Generator, count: int, words: int) -> pa.Array:
    drawn = draw.integers(0, len(_WORDS), (count, words))
    return pa.array([" ".join(_WORDS[n] for n in row) for row in drawn.tolist()])


def _long(draw: np.random.Generator) -> list[str]:
    """Results of about 300 characters."""
    return ["\n".join(text.split(" ", 20)) for text in _texts(draw, 50_000, 45).to_pylist()]


if __name__ == "__main__":
    import json
    import sys

    print(json.dumps(measure_signals(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000), indent=2))
