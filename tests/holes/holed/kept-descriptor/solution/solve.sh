#!/bin/sh
echo 'Hello, world!' > /workspace/hello.txt
