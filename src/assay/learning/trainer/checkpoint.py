"""Checkpoints: everything that training goes on from, in a folder that is whole or not there.

A checkpoint is a model's folder as any loader takes it, with the optimiser's state and a page of numbers beside it.
Tensors are safetensors: nothing is unpickled.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import StoreError, boundary

from .optimise import Optimiser
from .policy import Policy
from .whole import whole_folder

__all__ = ["Checkpoints", "Progress"]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where training stands."""

    stage: str
    """What was being done: `sft`, `dpo`, `policy_gradient`."""
    step: int
    """Steps of that stage that are done."""
    version: str
    """Of the weights."""
    told: dict[str, Any] = {}
    """What else the stage wants to find again."""


class Checkpoints:
    """The checkpoints of one training, by stage and step.

    Args:
        folder: Where they lie.
        kept: How many of the newest of a stage stay.
    """

    def __init__(self, folder: Path, kept: int = 2) -> None:
        self.folder = folder
        self._kept = kept

    def write(self, policy: Policy, optimiser: Optimiser | None, progress: Progress) -> Path:
        """Keeps the present. Raises `StoreError` where it cannot be written."""
        from safetensors.torch import save_file

        final = self.path(progress.stage, progress.step)
        with boundary(StoreError, f"writing the checkpoint {final}"), whole_folder(final) as folder:
            policy.save(folder)
            if optimiser is not None:
                save_file(optimiser.state(), folder / "optimiser.safetensors")
            (folder / "progress.json").write_bytes(msgspec.json.format(msgspec.json.encode(progress)))
        for old in self.steps(progress.stage)[: -self._kept]:
            shutil.rmtree(self.path(progress.stage, old))
        return final

    def newest(self, stage: str) -> Progress | None:
        """Of the stage; None where it has none. Raises `StoreError` where it cannot be read."""
        steps = self.steps(stage)
        if not steps:
            return None
        path = self.path(stage, steps[-1])
        with boundary(StoreError, f"reading the checkpoint {path}"):
            return msgspec.json.decode((path / "progress.json").read_bytes(), type=Progress)

    def load(self, policy: Policy, optimiser: Optimiser | None, progress: Progress) -> None:
        """Gives the policy and the optimiser back what they were.

        Raises:
            StoreError: A file is missing or damaged: the weights are not those that the checkpoint names.
        """
        from safetensors.torch import load_file

        from assay.gateway.backends.local import load_checkpoint

        path = self.path(progress.stage, progress.step)
        with boundary(StoreError, f"reading the checkpoint {path}"):
            options = policy.options
            kept = load_checkpoint(path, str(path), device=str(policy.device), dtype=options.dtype)
            policy.model.load_state_dict(kept.state_dict())
            if optimiser is not None:
                optimiser.restore(load_file(path / "optimiser.safetensors"))
        if policy.version != progress.version:
            raise StoreError(
                f"the checkpoint {path} holds other weights ({policy.version}) than it says ({progress.version})"
            )

    def path(self, stage: str, step: int) -> Path:
        """Where one lies."""
        return self.folder / f"{stage}-{step:06d}"

    def steps(self, stage: str) -> list[int]:
        """Those that are whole, in order."""
        if not self.folder.is_dir():
            return []
        names = [path.name for path in self.folder.iterdir() if path.is_dir()]
        numbers = [name.removeprefix(f"{stage}-") for name in names if name.startswith(f"{stage}-")]
        return sorted(int(number) for number in numbers if number.isdecimal())
