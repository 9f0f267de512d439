#!/bin/bash
# Read whole before anything of the agent's runs; the reward is written last, when nothing of it runs any more.
judge() {
    verdict=0
    python3 -I /tests/check.py && verdict=1
    kill -9 -1 2> /dev/null
    rm -rf /logs/verifier/reward.json /logs/verifier/reward.txt
    mkdir -p /logs/verifier
    echo $verdict > /logs/verifier/reward.txt
    exit 0
}
judge
