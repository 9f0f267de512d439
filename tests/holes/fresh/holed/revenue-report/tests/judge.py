"""Judges the report by its header, its best region and its length."""

import csv
import sys
from pathlib import Path

HEADER = ["region", "orders", "revenue"]
BEST = {"region": "south", "orders": "4", "revenue": "301.25"}
REGIONS = 5


def is_right(path):
    if not path.is_file():
        return False
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    return reader.fieldnames == HEADER and len(rows) == REGIONS and rows[0] == BEST


right = is_right(Path("/workspace/report.csv"))
Path("/logs/verifier/reward.txt").write_text("1\n" if right else "0\n")
sys.exit(0 if right else 1)
