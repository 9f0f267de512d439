#!/bin/bash
cd /tests
said=$(PYTHONPATH=/workspace python3 -m unittest test_money 2>&1)
code=$?
case "$said" in *"Ran 3 tests"*) ;; *) code=1 ;; esac
[ $code -eq 0 ]; echo $((1 - $?)) > /logs/verifier/reward.txt
