#!/bin/sh
echo 'where the river bends a stone keeps watch over water' > /workspace/essay.txt
