#!/bin/sh
python3 -c 'print(sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, 5000)))' > /workspace/count.txt
