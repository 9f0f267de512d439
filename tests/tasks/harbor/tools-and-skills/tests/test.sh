#!/bin/sh
printf 'apple\npear\nplum\n' > /tmp/expected.txt
if cmp -s /tmp/expected.txt /workspace/sorted.txt; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
    exit 1
fi
