"""Compares the totals with those computed here."""

import csv
import os
import pathlib
import sys

EXPECTED = [["apples", "pears", "plums"], ["12", "150", "1800"]]
path = pathlib.Path("/workspace/totals.csv")
rows = [row for row in csv.reader(path.read_text().splitlines()) if row] if path.is_file() else []
good = rows == EXPECTED and len(rows) - 1 == int(os.environ["EXPECTED_ROWS"])
pathlib.Path("/logs/verifier/reward.txt").write_text(f"{float(good)}\n")
sys.exit(0 if good else 1)
