#!/bin/sh
python3 /tests/judge.py
