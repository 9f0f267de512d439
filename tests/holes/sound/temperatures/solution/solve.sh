#!/bin/sh
python3 - <<'PYTHON'
import json

with open("/workspace/readings.jsonl") as source, open("/workspace/fahrenheit.jsonl", "w") as target:
    for line in source:
        row = json.loads(line)
        target.write(json.dumps({"station": row["station"], "fahrenheit": row["celsius"] * 9 // 5 + 32}) + "\n")
PYTHON
