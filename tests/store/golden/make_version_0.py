"""Writes `version_0.sqlite`, a run file of schema version 0, as the first stores were: events and no summary rows.

Run it only to see how the file came to be; the file itself is the golden one and is never written again.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from blake3 import blake3

BODIES = [
    '{"agent":"a","at":1.0,"attempt":"t.a.0","model":null,"number":0,"run":"golden","seed":7,"task":"t","task_digest":'
    '"blake3:1111111111111111111111111111111111111111111111111111111111111111","type":"attempt_started"}',
    '{"step":{"actor":"agent","index":0,"message":"hello"},"type":"step"}',
    '{"type":"verdict","verdict":{"check":"tests","kind":"outcome","reason":"all passed","score":1.0,"status":"pass"}}',
    '{"at":3.0,"ended":"done","type":"attempt_ended"}',
]


def main() -> None:
    path = Path(__file__).with_name("version_0.sqlite")
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(
        "PRAGMA page_size=512; CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE events (seq INTEGER PRIMARY KEY, chain TEXT NOT NULL, idx INTEGER NOT NULL, type TEXT NOT NULL,"
        " body BLOB NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL);"
        "CREATE UNIQUE INDEX events_by_chain ON events (chain, idx);"
    )
    connection.executemany("INSERT INTO meta VALUES (?, ?)", [("run", "golden"), ("manifest", '{"run":"golden"}')])
    for chain, bodies in (("t.a.0.0", BODIES), ("t.a.1.0", BODIES[:2])):
        previous = "blake3:" + "0" * 64
        for index, text in enumerate(bodies):
            body = text.encode().replace(b"t.a.0", chain[:5].encode())
            digest = (
                "blake3:" + blake3(b'["%s",%d,"%s",%s]' % (chain.encode(), index, previous.encode(), body)).hexdigest()
            )
            row = (chain, index, json.loads(text)["type"], body, previous, digest)
            connection.execute(
                "INSERT INTO events (chain, idx, type, body, previous, digest) VALUES (?,?,?,?,?,?)", row
            )
            previous = digest
    connection.close()


if __name__ == "__main__":
    main()
