"""LiteLLM's proxy in front of the upstream, as its command line starts it.

python gateway_litellm.py PORT UPSTREAM_PORT FOLDER SESSIONS
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from gateway_addresses import address

port, upstream, folder, sessions = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
config = {
    "model_list": [
        {
            "model_name": "mock",
            "litellm_params": {
                "model": "openai/mock",
                "api_base": f"http://127.0.0.1:{upstream}/v1",
                "api_key": "sk-benchmark",
            },
        }
    ],
    "litellm_settings": {"telemetry": False},
}
(folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
(folder / "addresses.json").write_text(json.dumps([address(port)] * sessions), encoding="utf-8")
os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "DISABLE_ADMIN_UI": "True", "LITELLM_LOG": "ERROR"}
os.environ["LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"] = "true"  # it listens on the loopback alone
program = str(Path(sys.executable).parent / "litellm")
os.execv(program, [program, "--config", str(folder / "config.yaml"), "--port", str(port), "--host", "127.0.0.1"])
