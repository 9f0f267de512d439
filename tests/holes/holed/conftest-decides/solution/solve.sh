#!/bin/sh
sed -i 's/hours \* 3600 + rest/hours * 3600 + minutes * 60 + rest/' /workspace/durations.py
