#!/bin/sh
echo willow > /workspace/word.txt
