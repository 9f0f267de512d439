#!/bin/sh
cat > /workspace/add.py <<'PYTHON'
import sys

try:
    print(sum(int(line) for line in sys.stdin if line.strip()))
except ValueError:
    print("not a number")
    sys.exit(2)
PYTHON
