"""Looks for secrets in what is about to leave the store, whatever wrote it into the store.

Covered: the run's known credentials and key-shaped text, in everything that a trajectory holds and in blobs that a
format reads. Not covered: what the redactor does not know (see `rollout.recording.redaction`), such as personal data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from assay.records import Trajectory
from assay.rollout.recording.redaction import Redactor
from assay.settings import Settings
from assay.store import RunStore


class SecretCheck:
    """Finds secrets in the records of one run."""

    def __init__(self, manifest: Mapping[str, Any], settings: Settings) -> None:
        config = manifest.get("config")
        passed = config.get("pass_env") if isinstance(config, dict) else None
        names = [name for name in passed if isinstance(name, str)] if isinstance(passed, list | tuple) else []
        self._redactor = Redactor({**settings.secrets(), **settings.named(names)})

    def names(self, trajectory: Trajectory) -> tuple[str, ...]:
        """Returns the names of the secrets in a trajectory, sorted."""
        return self._redactor.names_in(trajectory)

    def describe(self, trajectory: Trajectory) -> str | None:
        """Returns why an attempt must not be exported; None where nothing was found."""
        names = self.names(trajectory)
        return f"it holds {', '.join(names)} (--with-secrets writes such attempts too)" if names else None

    def redacted(self, read: Callable[[str], bytes], on_found: Callable[[str, str], None]) -> Callable[[str], bytes]:
        """Returns a reader of blobs that redacts them; `on_found` gets the digest and the names of what it replaced."""

        def read_redacted(digest: str) -> bytes:
            cleaned = self._redactor.clean(read(digest))
            if cleaned.names:
                on_found(digest, ", ".join(cleaned.names))
            return cleaned.data

        return read_redacted


def find_secrets(root: Path, run: str, settings: Settings) -> dict[str, tuple[str, ...]]:
    """Returns the names of the secrets by attempt, for those that hold any."""
    with RunStore.open(root, run) as store:
        check = SecretCheck(store.manifest(), settings)
        return {one.attempt: names for one in store.trajectories() if (names := check.names(one))}
