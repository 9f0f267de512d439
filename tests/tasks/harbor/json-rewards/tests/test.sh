#!/bin/sh
python3 - <<'PYTHON'
import json
import os
import pathlib
import sys

try:
    answer = json.loads(pathlib.Path("/workspace/answer.json").read_text())
except (OSError, ValueError):
    answer = {}
answer = answer if isinstance(answer, dict) else {}
length = float(answer.get("length") == 42)
unit = float(answer.get("unit") == os.environ["EXPECTED_UNIT"])
rewards = {"reward": length * unit, "length": length, "unit": unit}
pathlib.Path("/logs/verifier/reward.json").write_text(json.dumps(rewards))
sys.exit(0 if rewards["reward"] == 1 else 1)
PYTHON
