#!/bin/sh
tail -n +2 /workspace/rain.csv | sort -t, -k2 -n | tail -1 | cut -d, -f1 > /workspace/month.txt
