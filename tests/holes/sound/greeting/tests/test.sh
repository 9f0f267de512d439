#!/bin/bash
# Nothing that the agent started goes on, nothing that it wrote for the verifier stays, and only the shell itself judges.
judge() {
    kill -9 -1 2> /dev/null
    unset BASH_ENV ENV
    PATH=/usr/bin:/bin
    /bin/chmod 755 /logs/verifier
    /bin/rm -rf /logs/verifier/reward.json /logs/verifier/reward.txt
    reward=0
    if [ -f /workspace/hello.txt ] && [ ! -L /workspace/hello.txt ]; then
        IFS= read -r line < /workspace/hello.txt
        lines=$(/usr/bin/wc -l < /workspace/hello.txt)
        [ "$line" = "Hello, Ada" ] && [ "$lines" -le 1 ] && reward=1
    fi
    echo $reward > /logs/verifier/reward.txt
    exit 0
}
judge
