#!/bin/sh
for n in 2 3 5 7 11 13 17 19 23 29 31 37 41 43 47 53 59; do echo $n; done > /workspace/primes.txt
