"""The graphs of many attempts at one task: their prefix tree and their quotient graph, from the records on.

Attempts are made up so that they meet and part as real ones do: a common beginning, a few files, commands that vary by
a number, changes, test runs that fail before they pass. No two are the same.
"""

from __future__ import annotations

import random
from typing import Any

from assay.analysis.actions import actions_of
from assay.analysis.prefix_tree import prefix_tree
from assay.analysis.quotient import bifurcations, quotient_graph
from assay.analysis.states import states_of
from assay.records import AttemptStarted, Observation, Step, ToolCall, Trajectory
from benchmarks._measure import cost_of

__all__ = ["MOST_S", "measure_graphs"]

MOST_S = 5.0
"""What the prefix trees of 1,000 attempts may take on one core, in CPU seconds."""
_FILES = [f"src/pkg/{name}.py" for name in ("core", "model", "views", "forms", "urls", "tables", "query", "sql")]
_STARTED = AttemptStarted("run", "attempt", "task", "", "agent", None, 0, 0)


def measure_graphs(attempts: int = 1_000, acts: int = 40) -> dict[str, Any]:
    """CPU seconds of each stage for `attempts` of `acts` acts each, and what came of it."""
    draw = random.Random(0)
    trajectories = [_attempt(draw, number, acts) for number in range(attempts)]
    outcomes = [draw.random() < 0.6 for _ in trajectories]
    held: dict[str, Any] = {}
    stages = {
        "actions": lambda: held.update(actions=[actions_of(each) for each in trajectories]),
        "states": lambda: held.update(states=[states_of(each) for each in held["actions"]]),
        "tree": lambda: held.update(tree=prefix_tree(held["states"], outcomes)),
        "graph": lambda: held.update(graph=quotient_graph(held["actions"], outcomes, held["states"])),
        "measures": lambda: held.update(bifurcations=bifurcations(held["graph"])),
    }
    seconds = {name: cost_of(act).cpu_s for name, act in stages.items()}
    return {
        "attempts": attempts,
        "acts": attempts * acts,
        "cpu_s": seconds,
        "tree_from_records_cpu_s": seconds["actions"] + seconds["states"] + seconds["tree"],
        "tree_nodes": len(held["tree"].nodes),
        "graph_nodes": len(held["graph"].nodes),
        "graph_edges": len(held["graph"].edges),
        "most_cpu_s": MOST_S,
    }


def _attempt(draw: random.Random, number: int, acts: int) -> Trajectory:
    steps = []
    for index in range(acts):
        command, text, code = _act(draw, index, acts)
        call = ToolCall("c", "bash", "", {"command": command})
        seen = Observation(f"{text} [{number}.{index}]", "c", exit_code=code)
        steps.append(Step(index, "agent", tool_calls=(call,), observations=(seen,)))
    return Trajectory(
        run="run", attempt=f"a{number}", chain=f"a{number}.0", task="task", task_digest="", agent="agent", model=None,
        seed=0, number=number, retry=0, started=_STARTED, finished=None, isolation=None, steps=tuple(steps), calls=(),
        evidence=(), verdicts=(), notes=(), head="", length=0,
    )  # fmt: skip


def _act(draw: random.Random, index: int, acts: int) -> tuple[str, str, int]:
    if index == 0:
        return "ls -la /testbed", "total 8", 0
    file, line = draw.choice(_FILES), draw.randrange(1, 400)
    late = index > acts // 3
    choice = draw.random()
    if choice < (0.2 if late else 0.6):
        return f"grep -rn 'def {draw.choice('abcdef')}_{line % 7}' /testbed/{file} | head -20", "12: def x", 0
    if choice < (0.3 if late else 0.8):
        return f"cd /testbed && sed -n '{line},{line + 40}p' {file}", "code", 0
    if choice < 0.5:
        return f"cd /testbed && sed -i 's/x_{line}/y_{line}/' {file}", "", 0
    if choice < 0.6:
        return f"cd /testbed && git diff {file} 2>&1 | cat", "diff", 0
    failed = draw.random() < 0.5
    test = f"cd /testbed && python -m pytest -q tests/test_{draw.randrange(6)}.py -k k{line % 11} 2>&1 | tail -5"
    return test, "1 failed" if failed else "3 passed", int(failed)
