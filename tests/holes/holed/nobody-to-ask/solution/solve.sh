#!/bin/sh
sort /workspace/colours.txt > /workspace/sorted.txt
