#!/bin/sh
echo lantern > /workspace/word.txt
