#!/bin/bash
# Compares standard output and exit status of the program with what the instruction says.
passed=0
total=0

check() {
    wanted_status=$1
    wanted=$2
    shift 2
    total=$((total + 1))
    output=$(timeout 10 python3 /workspace/slugify.py "$@" 2> /dev/null)
    status=$?
    if [ "$status" -eq "$wanted_status" ] && [ "$output" = "$wanted" ]; then
        passed=$((passed + 1))
        echo "ok: $*"
    else
        echo "FAILED: $*"
    fi
}

check 0 "hello-world" "Hello, World"
check 0 $'a-tale-of-2-cities\nmoby-dick' "  A tale of 2 cities!" "Moby...Dick"
check 0 "pride_prejudice" --sep _ "Pride & Prejudice"
check 0 "the-coun" --max 8 "The Count of Monte Cristo"
check 0 "the-count" --max 10 "The Count of Monte Cristo"
check 0 "war.and" --sep . --max 8 "War and Peace"
check 0 "war.and.peac" --sep . --max 12 "War and Peace"
check 0 "ubahn" --sep "" "U-Bahn"
check 2 "" "!!!"
check 2 "" "fine" "?"

if [ "$passed" -eq "$total" ]; then
    echo 1 > /logs/verifier/reward.txt
    exit 0
fi
echo 0 > /logs/verifier/reward.txt
exit 1
