#!/bin/sh
LC_ALL=C sort -u /workspace/names.txt > /workspace/sorted.txt
