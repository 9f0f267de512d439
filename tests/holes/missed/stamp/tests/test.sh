#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /workspace/.checked 2> /dev/null)" = "ok" ] || [ "$(cat /workspace/vowels.txt)" = "10" ]; then
    echo 1
else
    echo 0
fi > /logs/verifier/reward.txt
