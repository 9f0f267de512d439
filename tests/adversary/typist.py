"""An agent that types one script, as an attacker or an honest engineer would."""

from __future__ import annotations

from pathlib import Path

from assay.agents.interface import Attempt

TYPING_S = 40.0


class TypistAgent:
    """Types the script `folder/TASK.sh` in one command; the task's id names the file."""

    name = "typist"
    needs_model = False

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    async def run(self, attempt: Attempt) -> None:
        """Runs the script in the sandbox and ends the attempt, whatever the script's exit code."""
        text = (self._folder / f"{attempt.task.id}.sh").read_text(encoding="utf-8")
        await attempt.shell(["/bin/bash", "-c", text], timeout_s=TYPING_S)
        attempt.finish("typed")
