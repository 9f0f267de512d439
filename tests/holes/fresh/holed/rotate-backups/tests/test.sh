#!/bin/bash
# Makes a folder of backups, rotates it, and looks at what is left.
folder=$(mktemp -d)
fail() {
    echo "FAILED: $1"
    echo 0 > /logs/verifier/reward.txt
    exit 1
}

[ -f /workspace/rotate.sh ] || fail "rotate.sh is missing"

for day in 03 11 07 19 27 02; do
    echo "backup of $day" > "$folder/db-2026-03-$day.tar"
done
echo "notes" > "$folder/README"

sh /workspace/rotate.sh "$folder" 3 || fail "exit status"
[ "$(ls "$folder" | grep -c '^db-.*\.tar$')" -eq 3 ] || fail "three backups must be left"
[ -f "$folder/README" ] || fail "other files must stay"

sh /workspace/rotate.sh "$folder" 5 || fail "exit status with fewer backups than KEEP"
[ "$(ls "$folder" | grep -c '^db-.*\.tar$')" -eq 3 ] || fail "nothing may be removed"

if sh /workspace/rotate.sh "$folder" 0 2> /dev/null; then
    fail "KEEP of 0 must be an error"
fi

echo 1 > /logs/verifier/reward.txt
