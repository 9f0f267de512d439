"""Judges the report row by row."""

import csv
import sys
from pathlib import Path

EXPECTED = [
    ["region", "orders", "revenue"],
    ["south", "4", "301.25"],
    ["north", "1", "120.50"],
    ["west", "1", "120.50"],
    ["east", "0", "0.00"],
    ["islands", "0", "0.00"],
]


def is_right(path):
    if not path.is_file():
        return False
    with path.open(newline="") as file:
        return list(csv.reader(file)) == EXPECTED


right = is_right(Path("/workspace/report.csv"))
Path("/logs/verifier/reward.txt").write_text("1\n" if right else "0\n")
sys.exit(0 if right else 1)
