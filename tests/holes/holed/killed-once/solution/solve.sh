#!/bin/sh
echo 10000 > /workspace/sum.txt
