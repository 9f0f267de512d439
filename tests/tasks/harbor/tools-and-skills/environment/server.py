"""A tool server over standard input and output with one tool, `notes`, that returns the notes."""

import json
import pathlib
import sys

TOOL = {"name": "notes", "description": "Returns the notes.", "inputSchema": {"type": "object", "properties": {}}}


def answer(method: str) -> dict:
    if method == "initialize":
        info = {"name": "notes", "version": "1.0.0"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [TOOL]}
    return {"content": [{"type": "text", "text": pathlib.Path("/workspace/notes.txt").read_text()}]}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        reply = {"jsonrpc": "2.0", "id": request["id"], "result": answer(request["method"])}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
