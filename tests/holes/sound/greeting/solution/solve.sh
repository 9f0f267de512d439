#!/bin/sh
echo "Hello, $(cat /workspace/name.txt)" > /workspace/hello.txt
