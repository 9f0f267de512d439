#!/bin/sh
rev < /workspace/word.txt > /workspace/reversed.txt
