#!/bin/sh
awk -F, 'NR > 1 { total += $2 } END { print total + 0 }' /workspace/orders.csv > /workspace/total.txt
