#!/bin/sh
cat > /workspace/rates.py <<'PYTHON'
import json
import re

LINE = re.compile(r'^\S+ \[[^\]]+\] "[A-Z]+ (\S+) HTTP/[\d.]+" (\d{3}) \d+$')

counts = {}
with open("/workspace/access.log") as log:
    for line in log:
        match = LINE.match(line.rstrip("\n"))
        if match is None:
            continue
        path = match.group(1).split("?")[0]
        seen, errors = counts.get(path, (0, 0))
        counts[path] = (seen + 1, errors + (int(match.group(2)) >= 500))

report = [
    {"path": path, "requests": seen, "errors": errors, "error_rate": round(errors / seen, 3)}
    for path, (seen, errors) in sorted(counts.items())
]
with open("/workspace/report.json", "w") as file:
    json.dump(report, file, indent=2)
PYTHON
python3 /workspace/rates.py
