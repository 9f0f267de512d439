"""What a workspace can do beside the contract of `interface`; each is asked for with `isinstance`."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from assay.records import LoadFacts, SandboxFacts

__all__ = ["CountsOrphans", "DescribesSeparation", "HasHostProcess", "ListensLocally", "ObservesLoads"]


@runtime_checkable
class CountsOrphans(Protocol):
    """A workspace that can say how many processes outlived whoever started them."""

    async def orphans(self) -> int:
        """Number of processes that have ended so far and were neither a command nor waited for by their own parent.

        Raises `EnvironmentFailure` as `Session.exec`.
        """
        ...


@runtime_checkable
class DescribesSeparation(Protocol):
    """A workspace that can say how its sandbox was made, as evidence for a grade of separation."""

    async def facts(self) -> SandboxFacts:
        """Facts about the sandbox that runs now. A fact that the tier cannot observe is left out.

        Raises `EnvironmentFailure` as `Session.exec`.
        """
        ...


@runtime_checkable
class HasHostProcess(Protocol):
    """A workspace whose processes can be told apart from the rest of the host's."""

    def host_pid(self) -> int:
        """Returns the host's number of the process that all in the sandbox descend from, also once it has ended."""
        ...


@runtime_checkable
class ListensLocally(Protocol):
    """A workspace that can hand out a listener at a path inside it."""

    async def listen_local(self, path: str) -> socket.socket:
        """A Unix SEQPACKET listener at `path` in the sandbox: its processes can ask what holds it, with descriptors.

        Returns:
            The socket, non-blocking; the caller owns it and closes it.

        Raises:
            OSError: The path is taken, or not to be written.
            EnvironmentFailure: The sandbox is gone.
        """
        ...


@runtime_checkable
class ObservesLoads(Protocol):
    """A workspace that can observe which files its commands open and execute. Nothing is refused by it."""

    async def observe_loads(self, paths: Sequence[str], tree: str) -> None:
        """Begins to observe every later command.

        Args:
            paths: Files that an agent wrote. Files that are written into the sandbox meanwhile count as such too.
            tree: The folder of the judged programs: an interpreter that is started on a file which lies there already
                runs a judged program.

        Raises `EnvironmentFailure` as `Session.exec`.
        """
        ...

    async def loads(self) -> LoadFacts:
        """Ends the observation and returns its record; incomplete where the kernel gives no notification of calls.

        Raises `EnvironmentFailure` as `Session.exec`.
        """
        ...
