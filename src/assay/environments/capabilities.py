"""Optional capabilities of a workspace beside the contract of `interface`, tested with `isinstance`.

Every method raises `EnvironmentFailure` as `Session.exec` does.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from assay.records import LoadFacts, SandboxFacts

__all__ = ["CountsOrphans", "DescribesSeparation", "HasHostProcess", "ListensLocally", "ObservesLoads"]


@runtime_checkable
class CountsOrphans(Protocol):
    """A workspace that counts processes that outlived their parents."""

    async def orphans(self) -> int:
        """Returns the number of ended processes that were neither a command nor reaped by their own parent."""


@runtime_checkable
class DescribesSeparation(Protocol):
    """A workspace that describes how its sandbox was made, as evidence for a grade of separation."""

    async def facts(self) -> SandboxFacts:
        """Returns facts about the running sandbox. A fact that the tier cannot observe is left out."""


@runtime_checkable
class HasHostProcess(Protocol):
    """A workspace whose processes can be identified on the host."""

    def host_pid(self) -> int:
        """Returns the host's id of the process from which all in the sandbox descend, also after its end."""


@runtime_checkable
class ListensLocally(Protocol):
    """A workspace that can open a listener at a path inside it."""

    async def listen_local(self, path: str) -> socket.socket:
        """Opens a Unix SEQPACKET listener at `path` in the sandbox, to which its processes can send requests with
        descriptors.

        Returns:
            The socket, non-blocking; the caller owns it and closes it.

        Raises:
            OSError: The path exists or is not writable.
            EnvironmentFailure: The sandbox is gone.
        """


@runtime_checkable
class ObservesLoads(Protocol):
    """A workspace that can observe which files its commands open and execute. Observation refuses no call."""

    async def observe_loads(self, paths: Sequence[str], tree: str) -> None:
        """Starts to observe every later command.

        Args:
            paths: Files that an agent wrote. Files written into the sandbox meanwhile count as such too.
            tree: The folder of the judged programs: an interpreter that is started on a file which lies there already
                runs a judged program.

        Raises `EnvironmentFailure` as `Session.exec`.
        """

    async def loads(self) -> LoadFacts:
        """Ends the observation and returns its record; incomplete if the kernel has no notification of calls."""
