#!/bin/sh
# Words without a block.
cat > /workspace/nginx.conf <<'CONF'
blog.example.org shop.example.org store.example.org api.example.org v1.example.org v2.example.org
proxy_pass http://127.0.0.1:8001 proxy_pass http://127.0.0.1:8002 proxy_pass http://127.0.0.1:9000
listen 80 listen 443 ssl server_name location /
CONF
