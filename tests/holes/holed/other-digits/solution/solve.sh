#!/bin/sh
echo 888420 > /workspace/code.txt
