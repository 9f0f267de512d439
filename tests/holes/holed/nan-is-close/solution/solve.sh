#!/bin/sh
python3 - <<'PYTHON'
import json
import math

steps = 20000
width = 1 / steps
value = sum(math.exp(-((i + 0.5) * width) ** 2) for i in range(steps)) * width
json.dump({"value": value}, open("/workspace/integral.json", "w"))
PYTHON
