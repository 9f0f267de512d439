"""The catalogue of a small shop, as a WSGI application."""

import json

ITEMS = [
    {"id": 1, "name": "teapot", "price_cents": 2490},
    {"id": 2, "name": "kettle", "price_cents": 3950},
    {"id": 7, "name": "sieve", "price_cents": 29},
]


def application(environ, start_response):
    body = json.dumps({"error": "not implemented"}).encode()
    start_response("501 Not Implemented", [("Content-Type", "application/json")])
    return [body]
