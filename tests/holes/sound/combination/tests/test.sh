#!/bin/bash
mkdir -p /logs/verifier
expected=144:169:196
answer=
[ -f /workspace/combination.txt ] && [ ! -L /workspace/combination.txt ] && read -r answer < /workspace/combination.txt
if [[ "$answer" == "$expected" ]]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
