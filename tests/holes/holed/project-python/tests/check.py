import json

assert json.load(open("/workspace/balance.json")) == {"rent": -700, "food": -200, "work": 2100}
