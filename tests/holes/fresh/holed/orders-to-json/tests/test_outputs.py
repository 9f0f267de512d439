import json
from pathlib import Path

import pytest

OUTPUT = Path("/workspace/orders.json")
ITEMS = {
    9: [("tea-100", 3), ("tea-250", 1)],
    21: [("cup-2", 6)],
    77: [("sieve", 1)],
    103: [("pot-1", 3), ("tea-100", 3)],
}
TOTALS = {9: 2546, 21: 2010, 77: 29, 103: 8967}


@pytest.fixture
def orders():
    assert OUTPUT.exists(), "orders.json was not written"
    data = json.loads(OUTPUT.read_text())
    assert isinstance(data, list)
    return data


def test_ids_are_sorted_and_unique(orders):
    ids = [order["id"] for order in orders]
    assert ids == sorted(set(ids))


def test_items(orders):
    for order in orders:
        assert [(item["sku"], item["quantity"]) for item in order["items"]] == ITEMS[order["id"]]


def test_totals(orders):
    for order in orders:
        assert order["total_cents"] == TOTALS[order["id"]]
        assert isinstance(order["total_cents"], int)
