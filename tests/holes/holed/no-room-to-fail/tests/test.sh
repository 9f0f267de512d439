#!/bin/bash
python3 /tests/check.py > /tmp/failures.txt 2> /dev/null
# No failure was noted: good.
if [ -s /tmp/failures.txt ]; then
    echo 0 > /logs/verifier/reward.txt
else
    echo 1 > /logs/verifier/reward.txt
fi
