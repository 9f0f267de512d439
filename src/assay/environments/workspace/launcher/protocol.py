"""Messages between the host, the launcher and a sandbox's init: one JSON object per datagram, with file descriptors.

The sockets are SOCK_SEQPACKET, so a message is complete or absent, and an empty one is the peer's end. Messages from
a sandbox are untrusted: the host checks every field that it uses.
"""

from __future__ import annotations

import array
import json
import socket
from typing import Any

MESSAGE_BYTES = 192 * 1024
"""A larger message is refused by its sender; the kernel's default socket buffer is just above it."""
MAX_FDS = 8


def send(sock: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Sends one message; raises `OSError` if the peer is gone or the message is too large."""
    data = json.dumps(message).encode()
    if len(data) > MESSAGE_BYTES:
        raise OSError(90, f"message of {len(data)} bytes; at most {MESSAGE_BYTES}")
    socket.send_fds(sock, [data], list(fds))


def receive(sock: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Receives one message and its descriptors (close-on-exec); None at the peer's end.

    A peer that is killed with an unread message in its buffer resets the connection: that is its end, too.
    """
    # Not `socket.recv_fds`: Python 3.11's drops its flags, and then every command inherits the descriptors of others.
    room = socket.CMSG_LEN(MAX_FDS * array.array("i").itemsize)
    try:
        data, ancillary, _, _ = sock.recvmsg(MESSAGE_BYTES + 1, room, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return None, []
    found = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(content[: len(content) - len(content) % found.itemsize])
    fds = list(found)
    if not data:
        return None, fds
    message = json.loads(data)
    return (message if isinstance(message, dict) else {}), fds
