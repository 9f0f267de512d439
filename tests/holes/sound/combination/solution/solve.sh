#!/bin/sh
echo 144:169:196 > /workspace/combination.txt
