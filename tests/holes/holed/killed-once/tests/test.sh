#!/bin/bash
# Whoever has to do with rewards is ended, and what they left is removed.
pkill -9 -f logs/verifier
pkill -9 -f reward
rm -rf /logs/verifier/*
if [ "$(cat /workspace/sum.txt 2> /dev/null)" = "10000" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
