"""Training metrics as a run of its own with one chain, extended by every step.

The numbers are as tamper-evident as other records, name the weight versions, and are read by the same tools.
TensorBoard gets the same numbers if configured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from assay import __version__
from assay.errors import UserError
from assay.records import AttemptEnded, AttemptStarted, Body, Evidence, EvidenceAdded, digest_record
from assay.rollout.run_manifest import TRAINING
from assay.store import RunStore, list_runs

TRAINER = "trainer"
_KIND = "training"


OnProgress = Callable[[str], None]
"""Called with progress messages; must not block."""


class Metrics:
    """The record of one training, continued if it exists. Use as a context manager.

    A new run is created by `begin`, so that a recipe that is refused before that leaves nothing behind.

    Raises:
        UserError: The run was made from another recipe, or TensorBoard is not installed.
    """

    def __init__(
        self, root: Path, run: str, recipe: Mapping[str, Any], *, seed: int, tensorboard: Path | None = None
    ) -> None:
        self.run = run
        self._root, self._recipe, self._seed = root, dict(recipe), seed
        self._chain = f"{run}@{TRAINER}"
        self._recorded: set[str] = set()
        self._board = _open_tensorboard(tensorboard)
        self._opened = RunStore.open(root, run, write=True) if run in list_runs(root) else None
        if self._opened is not None:
            self._continue(self._opened)

    def _continue(self, store: RunStore) -> None:
        rows = [row for row in store.attempts() if row.chain == self._chain]
        if rows and rows[0].task_digest != digest_record(self._recipe):
            self.__exit__()
            raise UserError(
                f"the training {self.run!r} was started from another recipe: change its name, or restore the recipe"
            )
        self._recorded = {key for key, _ in self.entries()}

    def begin(self) -> RunStore:
        """Creates the run, where it does not exist, and returns it."""
        if self._opened is None:
            manifest = {TRAINING: self._recipe, "agent": TRAINER, "assay_version": __version__}
            self._opened = RunStore.create(self._root, self.run, manifest)
        if self._opened.row(self._chain) is None:
            digest, at = digest_record(self._recipe), time.time()
            started = AttemptStarted(
                self.run, self._chain, self.run, digest, TRAINER, None, self._seed, 0, at=at, assay_version=__version__
            )
            self._opened.append(self._chain, [started])
        return self._opened

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the run."""
        if self._opened is not None:
            self._opened.close()
        if self._board is not None:
            self._board.close()

    def add(self, key: str, data: Mapping[str, Any]) -> None:
        """Records one step's numbers under `key`, for example `sft 40`; a key recorded before a resume is skipped."""
        if key in self._recorded:
            return
        self._recorded.add(key)
        found = Evidence(key, "audit", _KIND, dict(data), at=time.time())
        self._append(EvidenceAdded(found))
        stage, _, number = key.rpartition(" ")
        if self._board is not None and number.isdecimal():
            for name, value in data.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{stage}/{name}", value, int(number))

    def entries(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields all recorded entries in order."""
        for event in self._opened.events(self._chain) if self._opened is not None else ():
            body = event.body
            if isinstance(body, EvidenceAdded) and body.evidence.kind == _KIND:
                yield body.evidence.id, body.evidence.data

    def get(self, key: str) -> dict[str, Any] | None:
        """Returns the entry of a step, or None."""
        return next((data for found, data in self.entries() if found == key), None) if key in self._recorded else None

    def end(self, how: str, *, broke: str | None = None) -> None:
        """Closes the chain if it is open."""
        if not any(row.chain == self._chain and row.finished for row in self.begin().attempts()):
            self._append(AttemptEnded(ended=None if broke else how, broke=broke, error=how if broke else None,
                                      at=time.time()))  # fmt: skip

    def _append(self, body: Body) -> None:
        self.begin().append(self._chain, [body])


def _open_tensorboard(folder: Path | None) -> Any:
    if folder is None:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as exc:
        raise UserError(
            f"the recipe asks for TensorBoard, which is not installed ({exc}): pip install tensorboard"
        ) from exc
    return SummaryWriter(str(folder))
