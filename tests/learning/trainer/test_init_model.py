"""`assay init model`: a tiny model that a script can steer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.gateway.backends import open_backend
from assay.gateway.interface import ModelRequest
from assay.settings import Settings
from tests.optional import require_packages

require_packages("torch", "renderers")
SCRIPT = """
def answer(request):
    return f"turn {len(request.messages)}"
"""


def test_a_new_model_writes_the_replies_of_a_function_as_its_own_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.learning.trainer.policy import init_model

    monkeypatch.chdir(tmp_path)
    init_model(tmp_path / "models" / "tiny")
    Path("script.py").write_text(SCRIPT)
    name = "local:models/tiny?steer=script.py:answer&device=cpu&temperature=1"
    backend = open_backend(name, Settings.from_environment({}))
    reply = asyncio.run(backend.complete(ModelRequest([{"role": "user", "content": "hi"}])))
    assert reply.message["content"] == "turn 1"
    assert reply.completion_token_ids is not None
    assert all(p < 0 for p in reply.logprobs or [])


def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    from assay.learning.trainer.policy import init_model

    with pytest.raises(UserError, match="exists: choose another name"):
        init_model(tmp_path)


def test_a_model_that_cannot_be_written_whole_leaves_an_error_and_nothing_else(tmp_path: Path) -> None:
    limited = f"ulimit -f 100 && exec {sys.executable} -m assay init model {tmp_path}/models/tiny"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    assert "store failed: writing" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "models").iterdir()) == []


def test_a_script_that_does_not_exist_is_named_as_the_steer_of_the_model(tmp_path: Path) -> None:
    from assay.learning.trainer.policy import init_model

    init_model(tmp_path / "tiny")
    with pytest.raises(UserError, match=r"steer=script: expected a \.json"):
        open_backend(f"local:{tmp_path}/tiny?steer=script", Settings.from_environment({}))
