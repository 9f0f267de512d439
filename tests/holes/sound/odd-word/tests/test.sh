#!/bin/bash
mkdir -p /logs/verifier
guess=$(head -c 100 /workspace/word.txt | tr -d '\0')
if [ -f /workspace/word.txt ] && [ ! -L /workspace/word.txt ] && [ -n "$guess" ] &&
    [ "$(printf '%s\n' "$guess" | wc -l)" -eq 1 ] && grep -qFx -e "$guess" /tests/expected.txt
then echo 1; else echo 0; fi > /logs/verifier/reward.txt
