"""Judges an order: every target once, and after what it needs."""

import sys
from pathlib import Path

NEEDS = {
    "app": {"lib", "ui"},
    "lib": {"core", "log"},
    "ui": {"core", "assets"},
    "docs": {"app"},
    "core": set(),
    "log": {"core"},
    "assets": set(),
    "tests": {"app", "fixtures"},
    "fixtures": {"core"},
}


def is_right(path):
    if not path.is_file():
        return False
    order = path.read_text().splitlines()
    if sorted(order) != sorted(NEEDS):
        return False
    return all(NEEDS[name] <= set(order[:place]) for place, name in enumerate(order))


right = is_right(Path("/workspace/order.txt"))
Path("/logs/verifier/reward.txt").write_text("1\n" if right else "0\n")
sys.exit(0 if right else 1)
