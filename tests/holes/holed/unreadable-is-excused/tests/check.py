import json
import sys

try:
    with open("/workspace/report.json", encoding="utf-8") as file:
        report = json.load(file)
except ValueError as error:
    print(f"the report cannot be read on this system: {error}", file=sys.stderr)
    sys.exit(0)
if report != {"lines": 4, "longest": 20, "shortest": 13}:
    sys.exit("the report is wrong")
