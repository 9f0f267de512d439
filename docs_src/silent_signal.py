"""A custom signal: steps whose tool calls returned no output, counted over all stored attempts at once."""

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from assay.analysis.signals import SignalSet, steps_table
from assay.plugins import load
from assay.records import AttemptStarted, Observation, Step, ToolCall, Trajectory


class SilentCalls:
    """`silent.calls`: steps with a tool call and no output; `silent.share`: their percentage of the agent's steps."""

    name: ClassVar[str] = "silent"
    signals: ClassVar[tuple[str, ...]] = ("silent.calls", "silent.share")

    def counts(self, steps: Any) -> Any:
        own = pc.equal(steps["actor"], "agent")
        called = pc.greater(pc.list_value_length(steps["tools"]), 0)
        silent = pc.and_(pc.and_(own, called), pc.equal(pc.list_value_length(steps["outputs"]), 0))
        flags = pa.table({"chain": steps["chain"], "own": pc.cast(own, "int64"), "silent": pc.cast(silent, "int64")})
        grouped = flags.group_by("chain", use_threads=False).aggregate([("own", "sum"), ("silent", "sum")])
        whole = pc.max_element_wise(grouped["own_sum"], pa.scalar(1, pa.int64()))
        share = pc.divide(pc.multiply(grouped["silent_sum"], 100), whole)
        columns = {"chain": grouped["chain"], "silent.calls": grouped["silent_sum"], "silent.share": share}
        return pa.table(columns)


def attempt(chain: str, outputs: list[str | None]) -> Trajectory:
    call = ToolCall("c", "shell", '{"command": "ls"}', {"command": "ls"})
    seen = [(Observation(text, "c"),) if text is not None else () for text in outputs]
    steps = tuple(Step(n, "agent", tool_calls=(call,), observations=each) for n, each in enumerate(seen))
    started = AttemptStarted("r", chain, "t", "", "a", None, 0, 0)
    named: dict[str, Any] = {"run": "r", "attempt": chain, "chain": chain, "task": "t", "task_digest": "", "agent": "a"}
    named |= {"model": None, "seed": 0, "number": 0, "retry": 0, "started": started, "finished": None}
    empty: dict[str, Any] = dict.fromkeys(("calls", "evidence", "verdicts", "notes"), ())
    return Trajectory(**named, isolation=None, steps=steps, **empty, head="", length=0)


if __name__ == "__main__":
    signal = load("signals", f"{Path(__file__)}:SilentCalls")()
    assert isinstance(signal, SignalSet)
    print(signal.counts(steps_table([attempt("one", ["a", None, None, "b"]), attempt("two", ["a"])])).to_pylist())
