#!/bin/bash
mkdir -p /logs/verifier
expected=97-101-103
read -r answer < /workspace/combination.txt
if [[ $expected == $answer ]]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
