"""Checks a receipt of `assay receipt` without Assay: python check_receipt.py FILE [ed25519:PUBLIC_KEY].

Needs blake3, and cryptography where the receipt is signed.
"""

import json
import sys
from pathlib import Path

from blake3 import blake3


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(data):
    return "blake3:" + blake3(data).hexdigest()


def leaf(chain, length, head):
    return digest(b"\0" + canonical([chain, length, head]))


def node(left, right):
    return digest(b"\1" + bytes.fromhex(left[7:]) + bytes.fromhex(right[7:]))


def root_of(level):
    while len(level) > 1:
        pairs = [node(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0] if level else digest(b"")


def climb(at, index, count, path):
    path, last = list(path), count - 1
    while last > 0:
        if index % 2 or index < last:
            at = node(path.pop(0), at) if index % 2 else node(at, path.pop(0))
        index, last = index // 2, last // 2
    return None if path else at


def head_of(chain, events):
    """The digest of the last event, where each follows from the one before it."""
    previous = "blake3:" + "0" * 64
    for index, event in enumerate(events):
        link = b'[%s,%d,"%s",%s]' % (canonical(chain), index, event["previous"].encode(), event["body"].encode())
        if event["previous"] != previous or event["digest"] != digest(link):
            sys.exit(f"BAD: event {index} of {chain} was changed")
        previous = event["digest"]
    return previous


def check_signature(receipt, expected):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    found = receipt["signature"]
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(found["key"].removeprefix("ed25519:")))
    key.verify(bytes.fromhex(found["value"]), b"assay-receipt-1\n" + canonical(receipt["statement"]))
    if expected not in (None, found["key"]):
        sys.exit(f"BAD: signed by {found['key']}")
    return found["key"]


def main(path, expected=None):
    receipt = json.loads(Path(path).read_bytes())
    statement, proof = receipt["statement"], receipt.get("proof")
    if proof:
        proven = leaf(proof["chain"], proof["length"], proof["head"])
        root = climb(proven, proof["index"], statement["chains"], proof["path"])
        if "events" in proof and head_of(proof["chain"], proof["events"]) != proof["head"]:
            sys.exit("BAD: the events do not lead to the head")
    else:
        root = root_of([leaf(*head) for head in receipt["heads"]])
    if root != statement["root"]:
        sys.exit("BAD: the root does not follow")
    if expected and "signature" not in receipt:
        sys.exit("BAD: not signed")
    whose = f"signed by {check_signature(receipt, expected)}" if "signature" in receipt else "not signed"
    what = f"attempt {proof['chain']}" if proof else f"{statement['chains']} chains"
    print(f"holds: {what} of run {statement['run']}, {statement['made']}, {whose}")


if __name__ == "__main__":
    main(*sys.argv[1:])
