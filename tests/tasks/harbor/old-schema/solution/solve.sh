#!/bin/sh
chmod +x /workspace/run.sh
