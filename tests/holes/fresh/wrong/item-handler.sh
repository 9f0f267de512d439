#!/bin/sh
# Every answer holds every word.
cat >> /workspace/shop.py <<'PYTHON'


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([ITEMS, "not found", "not allowed"]).encode()]
PYTHON
