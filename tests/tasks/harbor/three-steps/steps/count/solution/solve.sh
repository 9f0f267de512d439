#!/bin/sh
awk '{ print length($0) }' /workspace/words.txt > /workspace/counts.txt
