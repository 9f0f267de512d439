#!/bin/sh
awk 'length($0) > length(w) { w = $0 } END { print NR " words, the longest is " w }' /workspace/words.txt > /workspace/report.txt
