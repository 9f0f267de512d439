#!/bin/bash
mkdir -p /logs/verifier
cd /workspace || exit 1
if sha256sum --check --status SHA256SUMS; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
