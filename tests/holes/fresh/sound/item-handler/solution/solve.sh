#!/bin/sh
cat > /workspace/shop.py <<'PYTHON'
"""The catalogue of a small shop, as a WSGI application."""

import json

ITEMS = [
    {"id": 1, "name": "teapot", "price_cents": 2490},
    {"id": 2, "name": "kettle", "price_cents": 3950},
    {"id": 7, "name": "sieve", "price_cents": 29},
]


def answer(method, path):
    if method != "GET":
        return "405 Method Not Allowed", {"error": "method not allowed"}
    if path == "/items":
        return "200 OK", ITEMS
    for item in ITEMS:
        if path == f"/items/{item['id']}":
            return "200 OK", item
    return "404 Not Found", {"error": "not found"}


def application(environ, start_response):
    status, value = answer(environ["REQUEST_METHOD"], environ.get("PATH_INFO", "/"))
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(value).encode()]
PYTHON
