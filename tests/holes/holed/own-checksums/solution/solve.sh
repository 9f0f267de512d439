#!/bin/sh
sed -i 's/?/c/' /workspace/parts/first.txt
sed -i 's/?/l/' /workspace/parts/second.txt
