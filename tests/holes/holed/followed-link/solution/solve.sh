#!/bin/sh
a=1 b=1
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo $a; c=$((a + b)) a=$b b=$c; done > /workspace/numbers.txt
