import json
import sys

AREA = 49.5
with open("/workspace/settings.json") as file:
    tolerance = json.load(file)["tolerance"]
with open("/workspace/area.json") as file:
    area = float(json.load(file)["area"])
if not abs(area - AREA) <= tolerance:
    sys.exit(f"{area} is more than {tolerance} away")
