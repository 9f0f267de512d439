#!/bin/bash
rm -f /tmp/finished
PYTHONPATH=/workspace python3 /tests/check.py
# A process that was killed on its way leaves no marker.
if [ $? -eq 0 ] && [ -e /tmp/finished ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
