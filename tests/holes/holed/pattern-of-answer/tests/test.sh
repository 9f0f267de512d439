#!/bin/bash
mkdir -p /logs/verifier
guess=$(cat /workspace/word.txt)
if grep -qx -e "$guess" /tests/expected.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
