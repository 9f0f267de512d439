#!/bin/sh
# The artifact is data of the agent's making: it is compared, never executed.
if [ "$(cat /workspace/inventory.json)" = '{"apples": 4, "pears": 5, "plums": 9}' ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
    exit 1
fi
