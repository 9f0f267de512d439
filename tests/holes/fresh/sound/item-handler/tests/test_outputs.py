import json
import sys
from wsgiref.util import setup_testing_defaults

import pytest

sys.path.insert(0, "/workspace")

from shop import application

TEAPOT = {"id": 1, "name": "teapot", "price_cents": 2490}
KETTLE = {"id": 2, "name": "kettle", "price_cents": 3950}
SIEVE = {"id": 7, "name": "sieve", "price_cents": 29}
NOT_FOUND = {"error": "not found"}
NOT_ALLOWED = {"error": "method not allowed"}


def request(method, path):
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path}
    setup_testing_defaults(environ)
    started = []
    body = b"".join(application(environ, lambda status, headers: started.append((status, dict(headers)))))
    ((status, headers),) = started
    assert headers["Content-Type"] == "application/json"
    return int(status.split()[0]), json.loads(body)


@pytest.mark.parametrize(("path", "item"), [("/items/1", TEAPOT), ("/items/2", KETTLE), ("/items/7", SIEVE)])
def test_one_item(path, item):
    assert request("GET", path) == (200, item)


def test_list():
    assert request("GET", "/items") == (200, [TEAPOT, KETTLE, SIEVE])


@pytest.mark.parametrize("path", ["/items/99", "/items/x", "/", "/item", "/items/1/name"])
def test_unknown_paths(path):
    assert request("GET", path) == (404, NOT_FOUND)


@pytest.mark.parametrize(("method", "path"), [("POST", "/items"), ("DELETE", "/items/1"), ("PUT", "/nowhere")])
def test_other_methods(method, path):
    assert request(method, path) == (405, NOT_ALLOWED)
