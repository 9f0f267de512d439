#!/bin/sh
# Keeps as many backups as it should, but the oldest.
cat > /workspace/rotate.sh <<'SCRIPT'
[ "$2" -ge 1 ] || exit 1
ls "$1" | grep '^db-' | sort | tail -n "+$(($2 + 1))" | while read -r name; do rm "$1/$name"; done
SCRIPT
