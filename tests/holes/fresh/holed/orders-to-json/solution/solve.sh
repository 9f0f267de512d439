#!/bin/sh
cat > /workspace/convert.py <<'PYTHON'
import csv
import json
from decimal import Decimal

orders = {}
with open("/workspace/orders.csv", newline="") as file:
    for line in csv.DictReader(file):
        quantity = int(line["quantity"])
        if quantity == 0:
            continue
        order = orders.setdefault(int(line["order_id"]), {"items": {}, "total": 0})
        order["items"][line["sku"]] = order["items"].get(line["sku"], 0) + quantity
        order["total"] += quantity * int(Decimal(line["unit_price"]) * 100)

result = [
    {
        "id": number,
        "items": [{"sku": sku, "quantity": quantity} for sku, quantity in order["items"].items()],
        "total_cents": order["total"],
    }
    for number, order in sorted(orders.items())
]
with open("/workspace/orders.json", "w") as file:
    json.dump(result, file)
PYTHON
python3 /workspace/convert.py
