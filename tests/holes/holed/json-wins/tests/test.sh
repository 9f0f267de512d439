#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /workspace/celsius.txt 2> /dev/null)" = "37" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
