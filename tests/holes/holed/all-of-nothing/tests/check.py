import json

values = json.load(open("/workspace/solution.json"))["values"]
wanted = [5.0, 3.0, -2.0]
assert all(abs(float(found) - right) < 1e-6 for found, right in zip(values, wanted))
