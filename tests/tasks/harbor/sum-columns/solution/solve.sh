#!/bin/sh
set -e
head -n 1 /workspace/data/numbers.csv > /workspace/totals.csv
awk -F, 'NR > 1 { for (i = 1; i <= NF; i++) s[i] += $i; n = NF }
    END { for (i = 1; i <= n; i++) printf "%d%s", s[i], (i < n ? "," : "\n") }' \
    /workspace/data/numbers.csv >> /workspace/totals.csv
