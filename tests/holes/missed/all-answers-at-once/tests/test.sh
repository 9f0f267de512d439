#!/bin/bash
mkdir -p /logs/verifier
if grep -q June /workspace/month.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
