"""Makes small task folders for the tests of this room."""

from collections.abc import Callable
from pathlib import Path

import pytest

collect_ignore_glob = ["harbor/*"]
LEAST = {
    "task.toml": "",
    "instruction.md": "Do it.\n",
    "tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
    "environment/Dockerfile": "FROM scratch\n",
}
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a task folder with the least in it; `files` adds, replaces, or with None removes by path."""

    def make_task(toml: str = "", files: dict[str, str | bytes | None] | None = None, *, name: str = "one") -> Path:
        folder = tmp_path / name
        for at, content in {**LEAST, "task.toml": toml, **(files or {})}.items():
            if content is None:
                continue
            path = folder / at
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return folder

    return make_task
