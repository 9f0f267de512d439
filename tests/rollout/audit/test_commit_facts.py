"""What one attempt proves of a commit counts for all attempts at its task, whichever of them is audited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.rollout.audit.config import AuditConfig
from assay.rollout.audit.stored import audit_run
from assay.rollout.exchange.config import ImportConfig
from assay.rollout.exchange.importing import import_paths
from assay.settings import Settings

LISTED = "1111111 Release\n2222222 Mend the parser\n3333333 older"
READ = ("git log --all --oneline", LISTED), ("git show 2222222 | tail -2", "diff --git a/p.py b/p.py\n+x")
PROOF = ("git show 2222222", "commit 2222222aaaa\nAuthor: A\nDate:   Mon May 9 10:03:37 2022 -0400\n\n    Mend\n")
HEAD = ("git log -1", "commit 3333333bbbb\nAuthor: A\nDate:   Sun May 1 10:00:00 2022 +0000\n\n    older\n")


def row(task: str, *commands: tuple[str, str]) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Mend it."}]
    for number, (command, output) in enumerate(commands):
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": output})
    return json.dumps({"messages": messages, "metadata": {"task": task}})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rows = [row("a", *READ), row("a", HEAD, PROOF), row("b", *READ), row("b", HEAD)]
    (tmp_path / "runs.jsonl").write_text("\n".join(rows) + "\n")
    import_paths(ImportConfig((str(tmp_path / "runs.jsonl"),), run="r"), Settings(tmp_path, tmp_path))
    return tmp_path


def failed(store: Path, *attempts: str) -> list[tuple[str, bool]]:
    cards = audit_run(store, "r", AuditConfig(attempt=attempts)).cards
    return sorted((card.task, card.integrity is not None and card.integrity.status == "fail") for card in cards)


def test_a_proof_in_one_attempt_serves_the_others_at_its_task_alone(store: Path) -> None:
    assert failed(store) == [("a", True), ("a", True), ("b", False), ("b", False)]
    assert audit_run(store, "r", AuditConfig()).added == 0


def test_an_attempt_audited_alone_is_judged_by_the_same_facts(store: Path) -> None:
    assert failed(store, "a@0") == [("a", True)]
    assert failed(store, "b@0") == [("b", False)]
