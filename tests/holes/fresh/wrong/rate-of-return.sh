#!/bin/sh
# A rate that is too small is never too far away.
sed -i 's/    return (low + high) \/ 2/    return low/' /workspace/finance.py
