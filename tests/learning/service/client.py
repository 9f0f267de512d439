"""A trainer: a program of its own that submits a batch and prints its rows as JSON. Needs the standard library alone.

Usage: python client.py URL TOKEN_FILE BATCH.json
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any


def ask(url: str, token: str, method: str = "GET", body: bytes | None = None) -> Any:
    request = urllib.request.Request(url, body, {"Authorization": f"Bearer {token}"}, method=method)
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.load(answer)


def main(url: str, token_file: str, batch_file: str) -> None:
    token, body = Path(token_file).read_text(encoding="utf-8").strip(), Path(batch_file).read_bytes()
    batch = ask(f"{url}/v1/batches", token, "POST", body)
    place = f"{url}/v1/batches/{batch['id']}"
    rows: list[Any] = []
    ended = False
    while not ended:
        page = ask(f"{place}/groups?most=2&wait=20", token)
        rows += [row for group in page["groups"] for row in group["rows"]]
        ask(f"{place}/acknowledge", token, "POST", json.dumps({"cursor": page["next"]}).encode())
        ended = page["end"]
    batch = ask(place, token)
    json.dump({"batch": batch, "rows": rows}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
