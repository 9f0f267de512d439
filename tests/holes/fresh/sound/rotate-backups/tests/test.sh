#!/bin/bash
# Makes folders of backups, rotates them, and compares what is left by name.
folder=$(mktemp -d)
fail() {
    echo "FAILED: $1"
    echo 0 > /logs/verifier/reward.txt
    exit 1
}

left() {
    [ "$(ls "$folder" | tr '\n' ' ')" = "$1" ] || fail "left are $(ls "$folder" | tr '\n' ' '), not $1"
}

[ -f /workspace/rotate.sh ] || fail "rotate.sh is missing"

for day in 2026-03-03 2025-12-31 2026-03-07 2026-02-19 2024-03-27 2026-03-02; do
    echo "backup of $day" > "$folder/db-$day.tar"
done
echo "notes" > "$folder/README"
echo "other" > "$folder/db-2026-03-09.tar.part"
echo "other" > "$folder/olddb-2020-01-01.tar"
OTHER="db-2026-03-09.tar.part olddb-2020-01-01.tar"

for bad in 0 -1 two ""; do
    sh /workspace/rotate.sh "$folder" "$bad" 2> /dev/null
    [ $? -eq 1 ] || fail "KEEP of '$bad' must be an error"
done
sh /workspace/rotate.sh "$folder/absent" 3 2> /dev/null
[ $? -eq 1 ] || fail "a folder that is absent must be an error"

ALL="README db-2024-03-27.tar db-2025-12-31.tar db-2026-02-19.tar db-2026-03-02.tar db-2026-03-03.tar db-2026-03-07.tar"
export LC_ALL=C
left "$ALL $OTHER "
sh /workspace/rotate.sh "$folder" 6 || fail "exit status"
left "$ALL $OTHER "
sh /workspace/rotate.sh "$folder" 3 || fail "exit status"
left "README db-2026-03-02.tar db-2026-03-03.tar db-2026-03-07.tar $OTHER "
sh /workspace/rotate.sh "$folder" 5 || fail "exit status"
left "README db-2026-03-02.tar db-2026-03-03.tar db-2026-03-07.tar $OTHER "
sh /workspace/rotate.sh "$folder" 1 || fail "exit status"
left "README db-2026-03-07.tar $OTHER "
[ "$(cat "$folder/db-2026-03-07.tar")" = "backup of 2026-03-07" ] || fail "the newest backup changed"

echo 1 > /logs/verifier/reward.txt
