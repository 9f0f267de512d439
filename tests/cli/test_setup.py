"""Root file systems that `assay setup --root` imports are bases of Dockerfiles."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.environments.workspace.images import BuildOptions, build_image
from assay.errors import UserError

pytestmark = pytest.mark.quick


async def test_an_imported_root_is_a_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, root, task = tmp_path / "cache", tmp_path / "root", tmp_path / "task"
    monkeypatch.setenv("ASSAY_CACHE", str(cache))
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "sh").write_text("a shell")
    task.mkdir()
    (task / "Dockerfile").write_text("FROM tiny:1\nWORKDIR /app\n")
    with tarfile.open(tmp_path / "root.tar", "w") as archive:
        archive.add(root, ".")
    with pytest.raises(UserError, match="`assay setup --root tiny:1=PATH`"):
        await build_image(task, BuildOptions(cache=cache))
    result = CliRunner().invoke(build_app(), ["setup", "--root", f"tiny:1={tmp_path / 'root.tar'}", "--json"])
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert (made["layers"], list(made["roots"])) == ([], ["tiny:1"])
    image = await build_image(task, BuildOptions(cache=cache))
    assert image.root
    assert (Path(image.layers[0]) / "bin" / "sh").read_text() == "a shell"


@pytest.mark.parametrize("given", ["tiny:1", "tiny:1=none.tar"])
def test_a_root_without_a_path_is_refused(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    result = CliRunner().invoke(build_app(), ["setup", "--root", given])
    assert result.exit_code == 2
    assert "expected NAME=PATH" in result.stderr
