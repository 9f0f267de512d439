"""Resets of BrowserGym's MiniWoB++ page `click-test`; run by `benchmarks.browser`.

Each line of the input is a number of resets, and each line of the output the milliseconds of those as it is installed,
and of as many without its waits (`slow_mo`, `pre_observation_delay`). BrowserGym starts a second
browser for its chat, which takes no path to the program: both are told by wrapping the launch.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Answers requests until the input ends."""
    import miniwob
    from browsergym.core import _get_global_playwright
    from browsergym.core.env import BrowserEnv

    chromium = _get_global_playwright().chromium
    chromium.launch = functools.partial(_launch, chromium.launch)
    task = importlib.import_module("browsergym.miniwob.all").ClickTestTask
    base = (Path(miniwob.__file__).parent / "html" / "miniwob").as_uri() + "/"
    shared = {"task_entrypoint": task, "task_kwargs": {"base_url": base}, "headless": True}
    envs = [BrowserEnv(**shared), BrowserEnv(**shared, slow_mo=0, pre_observation_delay=0)]
    for env in envs:
        env.reset(seed=0)
    print("[]", flush=True)
    for line in sys.stdin:
        seeds = range(json.loads(line)["resets"])
        print(json.dumps([reset(env, seed) for env in envs for seed in seeds]), flush=True)
    for env in envs:
        env.close()


def _launch(launch: Any, **options: Any) -> Any:
    return launch(**{**options, "executable_path": sys.argv[1], "args": ["--no-sandbox", *options.get("args", ())]})


def reset(env: Any, seed: int) -> float:
    """Returns the milliseconds of a reset with its first observation."""
    began = time.perf_counter()
    observation, _ = env.reset(seed=seed)
    assert observation["axtree_object"]
    return (time.perf_counter() - began) * 1e3


if __name__ == "__main__":
    main()
