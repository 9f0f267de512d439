"""Agents that type given commands in a sandbox, and a task to type them at, for tests of replays."""

from __future__ import annotations

from pathlib import Path

from assay.agents.interface import Attempt

TOML = """schema_version = "1.4"
[task]
name = "assay/typing"
description = "Write done into a file."
[agent]
timeout_sec = 120
[verifier]
timeout_sec = 60
[metadata.assay]
volatile = ["token <word>"]
"""


def write_task(folder: Path) -> Path:
    """A task that is solved by `done` in /workspace/answer, as long as nothing lies in /workspace/spoilt."""
    files = {
        "task.toml": TOML,
        "instruction.md": "Write done into answer, and nothing into spoilt.\n",
        "tests/test.sh": '[ "$(cat /workspace/answer)" = done ] && [ ! -e /workspace/spoilt ]\n'
        'echo $((1 - $?)) > /logs/verifier/reward.txt\n[ "$(cat /logs/verifier/reward.txt)" = 1 ]\n',
        "solution/solve.sh": "echo done > /workspace/answer\n",
        "environment/Dockerfile": "FROM scratch\nWORKDIR /workspace\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


class Typist:
    """Types `commands`, one a line, each as a step."""

    name = "typist"
    needs_model = False

    def __init__(self, commands: str = "") -> None:
        self.commands = commands.splitlines()

    async def run(self, attempt: Attempt) -> None:
        for command in self.commands:
            await attempt.shell(command, timeout_s=30)
        attempt.finish("typed")


class Bringer(Typist):
    """Brings in a file and runs a command beside its steps."""

    name = "bringer"

    async def run(self, attempt: Attempt) -> None:
        assert attempt.workspace is not None
        await attempt.workspace.write("/workspace/given.txt", b"given\n", mode=0o600)
        await attempt.workspace.exec(["sh", "-c", "cat > /workspace/piped.txt"], stdin=b"piped\n", timeout_s=9)
        await attempt.shell("cat given.txt piped.txt", message="look")
        await attempt.shell("sleep 20", timeout_s=0.5)
        fork = await attempt.workspace.fork()
        await attempt.shell("touch tried", fork=fork)
        attempt.finish("brought")
