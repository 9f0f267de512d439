#!/bin/sh
printf 'three\ntwo\none\n' > /workspace/reversed.txt
