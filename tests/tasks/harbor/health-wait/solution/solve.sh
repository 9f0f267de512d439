#!/bin/sh
mv /workspace/ready /workspace/done
