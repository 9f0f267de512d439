#!/bin/sh
if grep -Eqx '[1-9][0-9]*' /workspace/report.txt; then
    echo 1.0 > /logs/verifier/reward.txt
else
    echo 0.0 > /logs/verifier/reward.txt
    exit 1
fi
