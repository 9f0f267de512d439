#!/bin/sh
sed -i 's/+ 1 < width/+ 1 <= width/' /workspace/wrap.py
