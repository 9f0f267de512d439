#!/bin/bash
# Runs the program on ordinary input and with every option.
passed=0
total=0

check() {
    total=$((total + 1))
    output=$(timeout 10 python3 /workspace/slugify.py "$@" 2> /dev/null)
    if [ $? -eq 0 ] && [ -n "$output" ]; then
        passed=$((passed + 1))
        echo "ok: $*"
    else
        echo "FAILED: $*"
    fi
}

check "Hello, World"
check "A tale of two cities" "Moby Dick"
check --sep _ "Pride & Prejudice"
check --max 8 "The Count of Monte Cristo"
check --sep . --max 12 "War and Peace"

if [ "$passed" -eq "$total" ]; then
    echo 1 > /logs/verifier/reward.txt
    exit 0
fi
echo 0 > /logs/verifier/reward.txt
exit 1
