"""Checkpoints: the complete training state, written atomically.

A checkpoint is a standard model folder with the optimiser's state and a progress file. Tensors are safetensors: nothing
is unpickled.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import StoreError, boundary

from .optimise import Optimiser
from .policy import TrainedPolicy, atomic_folder


class TrainingProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a training."""

    stage: str
    """Stage: `sft`, `dpo`, `policy_gradient`."""
    step: int
    """Completed steps of that stage."""
    version: str
    """Version of the weights."""
    told: dict[str, Any] = {}
    """Further state of the stage."""


class Checkpoints:
    """The checkpoints of one training, by stage and step."""

    def __init__(self, folder: Path, keep_last: int = 2) -> None:
        self.folder = folder
        self._keep_last = keep_last

    def write(self, policy: TrainedPolicy, optimiser: Optimiser | None, progress: TrainingProgress) -> Path:
        """Writes a checkpoint. Raises `StoreError`."""
        from safetensors.torch import save_file

        final = self.path(progress.stage, progress.step)
        with boundary(StoreError, f"writing the checkpoint {final}"), atomic_folder(final) as folder:
            policy.save(folder)
            if optimiser is not None:
                save_file(optimiser.state(), folder / "optimiser.safetensors")
            (folder / "progress.json").write_bytes(msgspec.json.format(msgspec.json.encode(progress)))
        for old in self.steps(progress.stage)[: -self._keep_last]:
            shutil.rmtree(self.path(progress.stage, old))
        return final

    def newest(self, stage: str) -> TrainingProgress | None:
        """Returns the newest checkpoint of a stage, or None. Raises `StoreError` if it cannot be read."""
        steps = self.steps(stage)
        if not steps:
            return None
        path = self.path(stage, steps[-1])
        with boundary(StoreError, f"reading the checkpoint {path}"):
            return msgspec.json.decode((path / "progress.json").read_bytes(), type=TrainingProgress)

    def load(self, policy: TrainedPolicy, optimiser: Optimiser | None, progress: TrainingProgress) -> None:
        """Restores the policy and the optimiser."""
        from safetensors.torch import load_file

        from assay.gateway.backends.local import load_checkpoint

        path = self.path(progress.stage, progress.step)
        with boundary(StoreError, f"reading the checkpoint {path}"):
            options = policy.options
            stored_model = load_checkpoint(path, str(path), device=str(policy.device), dtype=options.dtype)
            policy.model.load_state_dict(stored_model.state_dict())
            if optimiser is not None:
                optimiser.restore(load_file(path / "optimiser.safetensors"))
        if policy.version != progress.version:
            raise StoreError(
                f"the checkpoint {path} holds other weights ({policy.version}) than it says ({progress.version})"
            )

    def path(self, stage: str, step: int) -> Path:
        """Returns the path of a checkpoint."""
        return self.folder / f"{stage}-{step:06d}"

    def steps(self, stage: str) -> list[int]:
        """Returns the complete checkpoints' steps, in order."""
        if not self.folder.is_dir():
            return []
        names = [path.name for path in self.folder.iterdir() if path.is_dir()]
        numbers = [name.removeprefix(f"{stage}-") for name in names if name.startswith(f"{stage}-")]
        return sorted(int(number) for number in numbers if number.isdecimal())
