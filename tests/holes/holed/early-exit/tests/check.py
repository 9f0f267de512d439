import json

found = json.load(open("/workspace/totals.json"))
assert found == {"ada": 7, "grace": 12, "alan": 1}, found
