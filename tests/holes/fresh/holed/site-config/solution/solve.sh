#!/bin/sh
python3 - <<'PYTHON'
import json

BLOCK = """server {{
    listen {listen};
    server_name {names};
    location / {{
        proxy_pass http://127.0.0.1:{port};
    }}
}}
"""

with open("/workspace/sites.json") as file:
    sites = json.load(file)
blocks = [
    BLOCK.format(
        listen="443 ssl" if site["tls"] else "80",
        names=" ".join([site["name"], *site["aliases"]]),
        port=site["port"],
    )
    for site in sites
    if site["enabled"]
]
with open("/workspace/nginx.conf", "w") as file:
    file.write("\n".join(blocks))
PYTHON
