"""What a command writes is kept whole, or it is said that it was not."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from assay.environments.workspace._output import Output
from assay.environments.workspace.session import require_answer
from assay.errors import EnvironmentFailure
from assay.store import BlobStore

pytestmark = pytest.mark.quick


async def written(data: bytes) -> Output:
    output = Output(10, spill=True, on_bytes=lambda _: None)
    os.write(output.write_end, data)
    output.close_write_end()
    await asyncio.sleep(0.02)
    output.drain()
    return output


async def test_what_is_cut_is_kept_whole(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    output = await written(b"0123456789" * 20)
    assert output.text() == "01234\n... 190 bytes cut ...\n56789"
    assert blobs.get(output.store(blobs) or "") == b"0123456789" * 20


async def test_a_full_disk_is_no_whole_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    output = await written(b"0123456789" * 20)
    assert output.text().startswith("01234\n...")
    with pytest.raises(EnvironmentFailure, match="could not be kept whole"):
        output.store(BlobStore(tmp_path))


async def test_an_answer_that_does_not_come_is_the_sandboxes_failure() -> None:
    with pytest.raises(EnvironmentFailure, match="did not answer"):
        await require_answer(asyncio.get_running_loop().create_future(), 0.01)
