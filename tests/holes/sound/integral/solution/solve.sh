#!/bin/sh
python3 -c 'import json, math; n = 20000; json.dump({"value": sum(math.exp(-((i + 0.5) / n) ** 2) for i in range(n)) / n}, open("/workspace/integral.json", "w"))'
