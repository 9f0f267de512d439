#!/bin/sh
cat > /workspace/schedule.py <<'PYTHON'
import json

needs = {job: set(before) for job, before in json.load(open("/workspace/jobs.json")).items()}
while needs:
    job = min(name for name, before in needs.items() if not before)
    print(job)
    del needs[job]
    for before in needs.values():
        before.discard(job)
PYTHON
