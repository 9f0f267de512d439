#!/bin/sh
echo Oslo > /workspace/capital.txt
