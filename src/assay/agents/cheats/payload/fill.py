"""Fills folders up to their file system's limit. Argument: `fill`: folder to {most_mib, left_bytes}.

Never writes more than `most_mib`. All files have the same content, so that content-addressed storage keeps it once.
"""

from __future__ import annotations

import json
import os
import sys

PIECE = 4 << 20


def fill(folder: str, most_bytes: int, left_bytes: int) -> int:
    """Writes pieces of decreasing size until the file system is full, then frees some bytes."""
    written, size, number = 0, PIECE, 0
    while size >= 4096:
        if written + size > most_bytes:
            size //= 2
            continue
        path = os.path.join(folder, f".full-{number}")
        number += 1
        try:
            with open(path, "wb", buffering=0) as file:
                file.write(b"\0" * size)
                os.fsync(file.fileno())
            written += os.path.getsize(path)
            if os.path.getsize(path) < size:
                size //= 2
        except OSError:
            if os.path.exists(path) and not os.path.getsize(path):
                os.unlink(path)
            size //= 2
    if left_bytes:  # give back what a reward needs
        for path in sorted(
            (os.path.join(folder, n) for n in os.listdir(folder) if n.startswith(".full-")), reverse=True
        ):
            status = os.statvfs(folder)
            if status.f_bavail * status.f_frsize >= left_bytes:
                break
            os.truncate(path, max(0, os.path.getsize(path) - left_bytes))
    return written


def main() -> None:
    for folder, how in json.loads(sys.argv[1])["fill"].items():
        written = fill(folder, how["most_mib"] << 20, how["left_bytes"])
        sys.stdout.write(f"{folder}: {written} bytes\n")


if __name__ == "__main__":
    main()
