#!/usr/bin/env python3
import os
import pathlib

pathlib.Path("/workspace/report.txt").write_text(f"{len(os.sched_getaffinity(0))}\n")
