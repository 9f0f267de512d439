#!/bin/bash
if diff /tests/nginx.conf /workspace/nginx.conf; then
    echo 1 > /logs/verifier/reward.txt
    exit 0
fi
echo 0 > /logs/verifier/reward.txt
exit 1
