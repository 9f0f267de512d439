#!/bin/sh
python3 - <<'PYTHON'
import json

with open("/workspace/readings.jsonl") as source, open("/workspace/celsius.jsonl", "w") as target:
    for line in source:
        row = json.loads(line)
        degrees = round((row["fahrenheit"] - 32) * 5 / 9)
        target.write(json.dumps({"station": row["station"], "celsius": degrees}) + "\n")
PYTHON
