#!/bin/sh
n=1; while [ $n -le 1024 ]; do echo $n; n=$((n * 2)); done > /workspace/powers.txt
