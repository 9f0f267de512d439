"""What a workspace can do beside the contract of `interface`; each is asked for with `isinstance`."""

from __future__ import annotations

import socket
from typing import Protocol, runtime_checkable

from assay.records import SandboxFacts

__all__ = ["CountsOrphans", "DescribesSeparation", "ListensLocally"]


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
