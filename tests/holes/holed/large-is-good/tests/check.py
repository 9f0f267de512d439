import json
import sys

BEST = 10.0
found = float(json.load(open("/workspace/result.json"))["distance"])
if found != found or found < BEST * 0.9999:
    sys.exit("not far enough")
