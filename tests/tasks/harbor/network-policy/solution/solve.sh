#!/bin/sh
sed -n 's/^ *\([^ :]*\):.*/\1/p' /proc/net/dev | sort > /workspace/interfaces.txt
