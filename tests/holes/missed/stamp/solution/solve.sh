#!/bin/sh
tr -cd 'aeiou' < /workspace/text.txt | wc -c | tr -d ' ' > /workspace/vowels.txt
