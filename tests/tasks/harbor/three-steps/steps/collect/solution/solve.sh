#!/bin/sh
printf 'apple\ncherry\nfig\n' > /workspace/words.txt
