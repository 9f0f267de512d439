#!/bin/bash
# Looks for every directive that the sites need.
CONF=/workspace/nginx.conf
status=0

want() {
    if ! grep -qi -- "$1" "$CONF" 2> /dev/null; then
        echo "missing: $1"
        status=1
    fi
}

for name in blog shop store api v1 v2; do
    want "$name.example.org"
done
for port in 8001 8002 9000; do
    want "proxy_pass http://127.0.0.1:$port"
done
want "listen 80"
want "listen 443 ssl"
want "server_name"
want "location /"

if [ $status -eq 0 ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
exit $status
