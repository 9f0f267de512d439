#!/bin/bash
PYTHONPATH=/workspace python3 /tests/run.py
# The report says how it went.
python3 - <<'PYTHON'
import json

try:
    summary = json.load(open("/logs/verifier/ctrf.json"))["results"]["summary"]
    good = summary["failed"] == 0 and summary["passed"] > 0
except (OSError, ValueError, KeyError):
    good = False
open("/logs/verifier/reward.txt", "w").write("1" if good else "0")
PYTHON
