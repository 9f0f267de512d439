"""Looks for secrets in what is about to leave the store, whatever wrote it into the store.

Covered: the run's known credentials and key-shaped text, in everything that a trajectory holds, in the instruction and
source of its task, in blobs that a format reads, in views that are exported, in the rows of a training, in reports and
in the files that `--out` and `--junit` write. Not covered: what is printed or served to the user's own browser, and
what the redactor does not know (see `rollout.recording.redaction`), such as personal data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from assay.records import Trajectory
from assay.rollout.recording.redaction import Redactor
from assay.settings import Settings
from assay.store import RedactedBytes, RunStore


class SecretCheck:
    """Finds the credentials of this process, those that runs passed on, and key-shaped text.

    Args:
        manifests: Manifests of the runs whose records are checked.
        settings: Settings with the credentials.
    """

    def __init__(self, manifests: Iterable[Mapping[str, Any]], settings: Settings) -> None:
        passed = [name for manifest in manifests for name in _passed_variables(manifest)]
        self._redactor = Redactor({**settings.secrets(), **settings.named(passed)})

    @classmethod
    def of_runs(cls, runs: Iterable[str], settings: Settings) -> Self:
        """Returns a check for records of several runs of the store."""
        manifests = []
        for run in runs:
            with RunStore.open(settings.store, run) as store:
                manifests.append(store.manifest())
        return cls(manifests, settings)

    def names(self, value: Any) -> tuple[str, ...]:
        """Returns the names of the secrets in a trajectory, another record or plain JSON data, sorted."""
        return self._redactor.names_in(value)

    def clean(self, data: bytes) -> RedactedBytes:
        """Returns redacted bytes of text or JSON, and the sorted names of the secrets in it."""
        return self._redactor.clean(data)

    def text(self, text: str) -> str:
        """Returns a redacted text."""
        return self._redactor.text(text)

    def describe(self, trajectory: Trajectory) -> str | None:
        """Returns why an attempt must not be exported; None where nothing was found."""
        return describe_secrets(self.names(trajectory))

    def redacted(self, read: Callable[[str], bytes], on_found: Callable[[str, str], None]) -> Callable[[str], bytes]:
        """Returns a reader of blobs that redacts them; `on_found` gets the digest and the names of what it replaced."""

        def read_redacted(digest: str) -> bytes:
            cleaned = self._redactor.clean(read(digest))
            if cleaned.names:
                on_found(digest, ", ".join(cleaned.names))
            return cleaned.data

        return read_redacted


def describe_secrets(names: Sequence[str]) -> str | None:
    """Returns why what holds these secrets is not exported; None without any."""
    return f"it holds {', '.join(names)} (--with-secrets writes such attempts too)" if names else None


def _passed_variables(manifest: Mapping[str, Any]) -> list[str]:
    config = manifest.get("config")
    passed = config.get("pass_env") if isinstance(config, dict) else None
    return [name for name in passed if isinstance(name, str)] if isinstance(passed, list | tuple) else []


def find_secrets(root: Path, run: str, settings: Settings) -> dict[str, tuple[str, ...]]:
    """Returns the names of the secrets by attempt, for those that hold any."""
    with RunStore.open(root, run) as store:
        check = SecretCheck([store.manifest()], settings)
        return {one.attempt: names for one in store.trajectories() if (names := check.names(one))}
