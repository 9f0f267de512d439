#!/bin/bash
mkdir -p /logs/verifier
if eval "[ \"$(cat /workspace/capital.txt)\" = Oslo ]"; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
