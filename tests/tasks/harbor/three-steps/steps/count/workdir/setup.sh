#!/bin/sh
echo 'awk can print length($0).' > /workspace/hint.txt
