"""Memory of the processes of one machine among several that share one host."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["machine_pss_mib"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PRESENT, _FRAME = np.uint64(1 << 63), np.uint64((1 << 55) - 1)
_MOST_BYTES = 1 << 24
"""Of the page map that are read at once."""


def machine_pss_mib(pids: Iterable[int]) -> dict[int, float]:
    """Returns the proportional set size of each process, as if only these ran: a page is divided by the processes of
    these that have it. The kernel's own figure would also divide it by the processes of the other nodes on the host.

    Raises `PermissionError` without the right to see page frames, which root has.
    """
    frames = {pid: _page_frames(pid) for pid in pids}
    if not any(len(one) for one in frames.values()):
        raise PermissionError("the kernel hides page frames: run as root")
    every, counts = np.unique(np.concatenate(list(frames.values())), return_counts=True)
    shares = 1.0 / counts
    return {pid: float(shares[np.searchsorted(every, one)].sum()) * _PAGE / 2**20 for pid, one in frames.items()}


def _page_frames(pid: int) -> npt.NDArray[np.uint64]:
    """Returns the numbers of the page frames that a process has mapped; none for one that is gone."""
    found = [np.empty(0, np.uint64)]
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as file:
            for line in maps:
                first, end = (int(word, 16) // _PAGE * 8 for word in line.split(maxsplit=1)[0].split("-"))
                file.seek(first)
                while first < end and (data := file.read(min(_MOST_BYTES, end - first))):
                    entries = np.frombuffer(data, np.uint64)
                    found.append(entries[entries & _PRESENT != 0] & _FRAME)
                    first += len(data)
    return np.setdiff1d(np.concatenate(found), [np.uint64(0)])
