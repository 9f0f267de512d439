#!/bin/sh
while read -r n; do echo $((n * n)); done < /workspace/numbers.txt > /workspace/squares.txt
