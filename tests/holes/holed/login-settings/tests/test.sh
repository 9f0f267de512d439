#!/bin/bash
mkdir -p /logs/verifier
# As the agent's own shell was.
for file in /home/agent/.profile /home/agent/.bashrc /home/agent/.bash_profile; do
    [ -f "$file" ] && . "$file"
done
if python3 /tests/check.py; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
