#!/bin/sh
python3 - <<'PYTHON'
import itertools
import json
import math

points = json.load(open("/workspace/points.json"))
best = max(math.dist(a, b) for a, b in itertools.combinations(points, 2))
json.dump({"distance": best}, open("/workspace/result.json", "w"))
PYTHON
