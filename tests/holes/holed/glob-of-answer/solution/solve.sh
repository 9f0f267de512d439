#!/bin/sh
echo 97-101-103 > /workspace/combination.txt
