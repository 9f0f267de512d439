"""Harbor's trials with its own no-op agent, in an environment that does nothing: what a trial costs before any box.

`PYTHON SCRIPT LONG SHORT TASK`: a job of SHORT attempts is subtracted from one of LONG. The environment answers every
command with success and hands out a reward of 0, so that a trial goes all the way through Harbor's verifier.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from episode import cpu_s
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.job import Job
from harbor.models.job.config import JobConfig
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig


class Nothing(BaseEnvironment):
    """No box at all."""

    @staticmethod
    def type() -> str:
        return "nothing"

    def _validate_definition(self) -> None:
        return None

    async def start(self, force_build: bool) -> None:  # noqa: FBT001 - the peer's contract
        return None

    async def stop(self, delete: bool) -> None:  # noqa: FBT001 - the peer's contract
        return None

    async def upload_file(self, source_path: Any, target_path: str) -> None:
        return None

    async def upload_dir(self, source_dir: Any, target_dir: str) -> None:
        return None

    async def download_file(self, source_path: str, target_path: Any) -> None:
        return None

    async def download_dir(self, source_dir: str, target_dir: Any) -> None:
        if "verifier" in str(source_dir):
            Path(target_dir).mkdir(parents=True, exist_ok=True)
            Path(target_dir, "reward.txt").write_text("0\n", encoding="utf-8")

    async def exec(self, command: str, *_: Any, **__: Any) -> ExecResult:
        return ExecResult(stdout="", stderr="", return_code=0)


async def job(attempts: int, task: str) -> tuple[float, float]:
    """CPU and wall milliseconds of a whole job."""
    with tempfile.TemporaryDirectory(prefix="harbor-jobs-") as folder:
        config = JobConfig(
            jobs_dir=Path(folder),
            n_attempts=attempts,
            n_concurrent_trials=1,
            quiet=True,
            agents=[AgentConfig(name="nop")],
            environment=EnvironmentConfig(import_path=f"{Path(__file__).stem}:Nothing"),
            tasks=[TaskConfig(path=Path(task))],
        )
        cpu, wall = cpu_s(), time.perf_counter()
        result = await (await Job.create(config)).run()
        cpu, wall = (cpu_s() - cpu) * 1000, (time.perf_counter() - wall) * 1000
        stats = json.loads(result.model_dump_json())["stats"]
        wrong = stats.get("n_errored_trials", stats.get("n_errors"))
        if wrong:
            raise SystemExit(f"{wrong} of {attempts} trials went wrong: {json.dumps(stats)[:500]}")
    return cpu, wall


def main() -> None:
    """Two jobs and their difference."""
    long, short, task = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    asyncio.run(job(1, task))
    few, many = asyncio.run(job(short, task)), asyncio.run(job(long, task))
    cpu, wall = ((b - a) / (long - short) for a, b in zip(few, many, strict=True))
    row = {"version": f"harbor {version('harbor')}", "at_once": 1, "attempts": long - short, "cpu_ms": cpu}
    print(json.dumps({**row, "wall_ms": wall, "attempts_per_s": 1000 / wall}))


if __name__ == "__main__":
    main()
