#!/bin/sh
LC_ALL=C sort -u /workspace/notes.txt > /workspace/sorted.txt
