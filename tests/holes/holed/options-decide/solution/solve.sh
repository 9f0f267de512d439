#!/bin/sh
sed -i 's/text.split()/text.lower().split()/' /workspace/counting.py
