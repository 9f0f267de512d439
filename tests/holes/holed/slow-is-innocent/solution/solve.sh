#!/bin/sh
echo 'import sys; print(len(sys.stdin.read().split()))' > /workspace/count.py
