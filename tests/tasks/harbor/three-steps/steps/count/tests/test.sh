#!/bin/sh
python3 - <<'PYTHON'
import json
import os
import pathlib
import sys

path = pathlib.Path("/workspace/counts.txt")
lines = path.read_text().split() if path.is_file() else []
rewards = {"reward": float(lines == ["5", "6", "3"]), "lines": float(len(lines) == int(os.environ["EXPECTED_LINES"]))}
pathlib.Path("/logs/verifier/reward.json").write_text(json.dumps(rewards))
sys.exit(0 if rewards["reward"] else 1)
PYTHON
