import sys
from wsgiref.util import setup_testing_defaults

sys.path.insert(0, "/workspace")

from shop import application


def request(method, path):
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path}
    setup_testing_defaults(environ)
    statuses = []
    body = b"".join(application(environ, lambda status, headers: statuses.append(status)))
    return statuses[0], body.decode().lower()


def test_list_names_every_item():
    status, body = request("GET", "/items")
    assert status.startswith("200")
    for name in ("teapot", "kettle", "sieve"):
        assert name in body


def test_one_item():
    status, body = request("GET", "/items/2")
    assert status.startswith("200")
    assert "kettle" in body
    assert "3950" in body


def test_missing_item():
    _, body = request("GET", "/items/99")
    assert "not found" in body


def test_other_methods():
    _, body = request("DELETE", "/items/1")
    assert "not allowed" in body
