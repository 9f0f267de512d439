"""Imports four recorded attempts at one task, scores the process of each, and finds where they diverge."""

import json
from pathlib import Path

from assay.analysis.actions import actions_of
from assay.analysis.quality import process_quality
from assay.analysis.quotient import bifurcations, quotient_graph
from assay.analysis.recovery import recovery_of
from assay.rollout.exchange.config import ImportConfig
from assay.rollout.exchange.importing import import_paths
from assay.settings import Settings
from assay.store import RunStore

Turn = tuple[str, str]
LOOK: Turn = ("grep -n total cart.py", "12: total + 1")
FIX: Turn = ("sed -i 's/+ 1/+ 0/' cart.py", "")
DROP: Turn = ("rm test_cart.py", "")
RED: Turn = ("pytest -q", "1 failed, 1 passed in 0.01s")
GREEN: Turn = ("pytest -q", "2 passed in 0.01s")
IDLE: Turn = ("ls", "cart.py")
ATTEMPTS: list[tuple[str, list[Turn]]] = [
    ("pass", [LOOK, FIX, GREEN]),
    ("pass", [LOOK, RED, FIX, GREEN]),
    ("fail", [LOOK, DROP, RED]),
    ("fail", [LOOK, DROP, IDLE, IDLE, IDLE]),
]


def conversation(outcome: str, turns: list[Turn]) -> str:
    messages: list[object] = [{"role": "user", "content": "The total is off by one: fix it."}]
    for number, (command, output) in enumerate(turns):
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
    return json.dumps({"messages": messages, "metadata": {"task": "cart", "agent": "recorded", "outcome": outcome}})


if __name__ == "__main__":
    Path("attempts.jsonl").write_text("\n".join(conversation(*each) for each in ATTEMPTS), encoding="utf-8")
    import_paths(ImportConfig(paths=("attempts.jsonl",), run="cart"), Settings(Path("cache"), Path(".assay")))
    with RunStore.open(Path(".assay"), "cart") as store:
        held = sorted(store.trajectories(), key=lambda each: each.number)
    actions = [actions_of(each) for each in held]
    passed = [each.outcome == "pass" for each in held]
    for number, own in enumerate(actions):
        others = [of for n, of in enumerate(actions) if passed[n] and n != number]
        quality = process_quality(own, others)
        assert quality is not None, "there are actions to judge"
        errors = recovery_of(own).errors
        print(held[number].outcome, f"{quality.score:.2f}", f"waste {len(quality.wasted)}", f"errors {len(errors)}")
    graph = quotient_graph(actions, passed)
    where = bifurcations(graph)[0]
    print(f"ways part after {graph.nodes[where.node].describe()} ({where.gain:.2f} bits)")
    for follows, (won, lost) in where.branches.items():
        print(f"  then {graph.nodes[follows].describe()}: {won} passed, {lost} failed")
