#!/bin/bash
# Packages that the agent installed are used.
export HOME=/home/agent
if python3 /tests/check.py; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
