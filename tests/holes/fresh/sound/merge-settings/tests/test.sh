#!/bin/bash
# Every expected line stands there whole, and there are no others.
FILE=/workspace/settings.env
status=0
expected=("HOST=127.0.0.1" "LOG_LEVEL=debug" "PORT=9000" "QUERY=a=1&b=2" "REGION=eu" "TIMEOUT_S=30")

[ -f "$FILE" ] || status=1
for line in "${expected[@]}"; do
    grep -qxF -- "$line" "$FILE" || { echo "missing: $line"; status=1; }
done
[ "$(grep -c '' "$FILE")" -eq "${#expected[@]}" ] || { echo "other lines"; status=1; }
LC_ALL=C sort -c "$FILE" || { echo "not sorted"; status=1; }

if [ $status -eq 0 ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
exit $status
