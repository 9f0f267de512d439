import json
import sys

WANTED = {"north": 10, "south": 30, "west": -5}
wrong = 0
with open("/workspace/celsius.jsonl", errors="replace") as file:
    lines = file.read().splitlines()
if not lines:
    sys.exit("no readings")
for line in lines:
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        continue  # a line that was cut off
    if WANTED.get(row.get("station")) != row.get("celsius"):
        wrong += 1
sys.exit(wrong)
