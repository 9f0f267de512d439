import json
import sys

WANTED = 0.7468241328124271
found = json.load(open("/workspace/integral.json"))["value"]
if abs(float(found) - WANTED) > 1e-6:
    sys.exit(f"{found} is too far from {WANTED}")
