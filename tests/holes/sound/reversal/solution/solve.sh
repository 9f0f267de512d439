#!/bin/sh
echo 'import sys; print(*reversed(sys.stdin.read().splitlines()), sep="\\n")' > /workspace/reverse.py
