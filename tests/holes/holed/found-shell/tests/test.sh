#!/usr/bin/env bash
mkdir -p /logs/verifier
if [ "$(cat /workspace/reversed.txt)" = "$(printf 'three\ntwo\none')" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
