"""Starts sleepers up to the process limit. Arguments: `most`; `left`: number of processes left free."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

SECONDS = "900"


def main() -> None:
    given = json.loads(sys.argv[1])
    sleepers: list[int] = []
    for _ in range(given["most"]):
        try:
            sleepers.append(os.posix_spawnp("sleep", ["sleep", SECONDS], dict(os.environ), setsid=True))
        except OSError:
            break
    sys.stdout.write(f"{len(sleepers)} processes\n")
    sys.stdout.flush()
    # This process itself and the one that started it go as well, and make room.
    for sleeper in sleepers[len(sleepers) - max(0, given["left"] - 1) :]:
        os.kill(sleeper, signal.SIGKILL)
        os.waitpid(sleeper, 0)
    time.sleep(0.05)


if __name__ == "__main__":
    main()
