#!/bin/sh
sed -i 's/isoweekday()/weekday()/' /workspace/weeks.py
