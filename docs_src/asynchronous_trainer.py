"""A trainer that does not wait: it asks for batches ahead, takes groups as they are whole, and posts new weights.

Usage: python asynchronous_trainer.py URL TOKEN_FILE WEIGHTS_FOLDER. The standard library is enough.
"""

import json
import shutil
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

STEPS, MOST_LAG = 4, 1


def ask(path: str, body: dict[str, Any] | None = None) -> Any:
    """Asks the service. While it stops and is started again, the same request is repeated: each may come twice."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{URL}/v1/{path}", data, {"Authorization": f"Bearer {TOKEN}"})
    for wait_s in (1, 2, 5, 10, 20, 40, None):
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return json.load(answer)
        except OSError as error:
            if wait_s is None or getattr(error, "code", 503) != 503:
                raise
            time.sleep(wait_s)
    raise AssertionError


def ask_for_batch(step: int) -> None:
    """The batch that step `step` trains on, which begins once the policy has had `step - MOST_LAG` updates."""
    ask("batches", {
        "id": f"step-{step}", "policy": {"name": "actor"}, "tasks": [f"family:grid,n=2,seed={step}"], "attempts": 3,
        "agent_options": {"temperature": 1.0}, "credit": {"method": "rloo"}, "step": step, "most_lag": MOST_LAG,
    })  # fmt: skip


def take(step: int) -> tuple[list[Any], int]:
    """All groups of a batch that were not acknowledged, and the cursor after them."""
    groups: list[Any] = []
    after = ""
    while True:
        page = ask(f"batches/step-{step}/groups?wait=30{after}")
        groups += page["groups"]
        after = f"&after={page['next']}"
        if page["end"]:
            return groups, page["next"]


def train(rows: list[Any], step: int) -> None:
    """Stands for the update and the checkpoint: here the weights stay what they are."""
    shutil.copytree(WEIGHTS / f"v{step}", WEIGHTS / f"v{step + 1}", dirs_exist_ok=True)
    print(f"step {step}: {len(rows)} rows, {sum(row['verified_pass'] for row in rows)} verified passes")


URL, TOKEN, WEIGHTS = sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8").strip(), Path(sys.argv[3])
ask("policies/actor/versions", {"version": "v0", "step": 0})
for ahead in range(MOST_LAG + 1):
    ask_for_batch(ahead)
for step in range(STEPS):
    groups, cursor = take(step)
    for group in groups:
        if "dropped" in group:
            print(f"step {step}: {group['task']} dropped, {group['dropped']}")
    train([row for group in groups for row in group.get("rows", [])], step)
    # The checkpoint is written: from here on these groups need not come again.
    ask(f"batches/step-{step}/acknowledge", {"cursor": cursor})
    ask("policies/actor/versions", {"version": f"v{step + 1}", "step": step + 1})
    if step + 1 + MOST_LAG < STEPS:
        ask_for_batch(step + 1 + MOST_LAG)
print(ask("policies/actor"))
