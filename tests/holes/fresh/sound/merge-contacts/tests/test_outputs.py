import json
from pathlib import Path

MERGED = Path("/workspace/merged.json")
EXPECTED = [
    {"email": "marie@example.org", "name": "Marie Curie", "tags": ["chemistry", "paris", "science"]},
    {"email": "ada@example.org", "name": "Ada Lovelace", "tags": ["math"]},
    {"email": "eve@example.org", "name": "Eve", "tags": ["a", "m", "x"]},
]


def test_people():
    assert json.loads(MERGED.read_text()) == EXPECTED
