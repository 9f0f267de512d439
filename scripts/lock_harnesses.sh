#!/bin/sh
# Rewrites the locks of the harnesses that npm installs (every platform, digests, no registry named). Needs npm.
# Usage: sh scripts/lock_harnesses.sh NAME PACKAGE@VERSION
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '{"private": true}' > "$folder/package.json"
(cd "$folder" && npm install --package-lock-only --ignore-scripts --omit=dev --save-exact --no-audit --no-fund "$2")
python3 - "$folder/package-lock.json" "src/assay/agents/harnesses/locks/$1.json" "$1" <<'PY'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    lock = json.load(file)
lock["name"] = sys.argv[3]
for entry in lock["packages"].values():
    for key in ("resolved", "funding", "license", "engines"):
        entry.pop(key, None)
lock["packages"][""].pop("name", None)
with open(sys.argv[2], "w", encoding="utf-8") as file:
    file.write(json.dumps(lock, indent=1, sort_keys=True) + "\n")
PY
