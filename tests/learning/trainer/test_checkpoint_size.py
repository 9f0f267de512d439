"""A checkpoint from elsewhere: a configuration that would fill the memory is refused before it is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.errors import StoreError, UserError
from assay.learning.trainer.checkpoint_size import require_proportionate
from assay.records import digest_bytes
from assay.rollout.cluster.shared_blobs import fetch_blobs
from assay.store import BlobStore
from assay.store.objects.index import blob_entry
from tests.optional import require_packages
from tests.store.objects.simulated import SimulatedStore


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    require_packages("torch", "transformers")
    from assay.learning.trainer.policy import init_model

    init_model(tmp_path / "model")
    return tmp_path / "model"


def _change(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


@pytest.mark.long
@pytest.mark.timeout(600)  # PyTorch starts twice
def test_a_checkpoint_as_it_was_written_is_accepted(checkpoint: Path) -> None:
    require_proportionate(checkpoint)


@pytest.mark.long
@pytest.mark.timeout(600)  # PyTorch starts twice
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"vocab_size": 1 << 31, "hidden_size": 1 << 12}, r"describes a model of [\d,]+ MiB, and the weights have"),
        ({"num_hidden_layers": 10_000_000}, "cannot be described within"),
        ({"model_type": "gpt2", "max_position_embeddings": 1 << 26}, "describes a model of"),
    ],
)
def test_a_configuration_that_would_fill_the_memory_is_refused(
    checkpoint: Path, values: dict[str, Any], reason: str
) -> None:
    _change(checkpoint, **values)
    with pytest.raises(UserError, match=reason):
        require_proportionate(checkpoint, most_data_bytes=2 << 30)


async def test_a_description_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    place, data = SimulatedStore(), b"x" * 1001
    key = blob_entry(digest_bytes(data), 0).key
    await place.create(key, data)
    with pytest.raises(StoreError, match="has more than 1000 bytes"):
        await fetch_blobs(place, BlobStore(tmp_path), [digest_bytes(data)], limit=1000)
    await fetch_blobs(place, BlobStore(tmp_path), [digest_bytes(data)])
