#!/bin/sh
echo '8 / (3 - 8 / 3)' > /workspace/expression.txt
