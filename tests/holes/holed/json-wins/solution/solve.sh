#!/bin/sh
echo 37 > /workspace/celsius.txt
