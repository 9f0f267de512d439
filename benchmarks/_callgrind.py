"""Counts the instructions of a part of this program under `valgrind --tool=callgrind`.

Instrumentation is switched on for the part alone, by Valgrind's client requests: a sequence of instructions without
effect that Valgrind recognises (valgrind.h, callgrind.h). They are written down here for x86-64.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["MACHINE", "OUT", "is_running", "measure"]

CODE: Final = bytes.fromhex("4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3")
"""x86-64 function of one argument, a pointer to six numbers of which the first is the request."""
MACHINE: Final = "x86_64"
_BASE: Final = ord("C") << 24 | ord("T") << 16
DUMP, ZERO, START, STOP = _BASE, _BASE + 1, _BASE + 4, _BASE + 5
OUT: Final = "ASSAY_CALLGRIND_OUT"
"""Variable that names the file which callgrind writes, without the number of the part."""


def is_running() -> bool:
    """Returns whether this program was started under callgrind by the gate."""
    return OUT in os.environ


def measure(work: Callable[[], int]) -> dict[str, float]:
    """Runs the work and returns the instructions of this process for each unit that it counts."""
    out = Path(os.environ[OUT])
    before = set(out.parent.glob(f"{out.name}.*"))
    pages = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    pages.write(CODE)
    call = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(ctypes.addressof(ctypes.c_char.from_buffer(pages)))
    requests = {code: (ctypes.c_uint64 * 6)(code) for code in (ZERO, START, STOP, DUMP)}
    gc.collect()
    gc.disable()
    call(ctypes.addressof(requests[ZERO]))
    call(ctypes.addressof(requests[START]))
    units = work()
    call(ctypes.addressof(requests[STOP]))
    call(ctypes.addressof(requests[DUMP]))
    gc.enable()
    parts = set(out.parent.glob(f"{out.name}.*")) - before
    totals = [re.search(r"^totals: (\d+)", part.read_text(errors="replace"), re.MULTILINE) for part in parts]
    return {"instructions": sum(int(found[1]) for found in totals if found) / units}
