#!/bin/sh
printf 'fig\nplum\n' > /workspace/common.txt
