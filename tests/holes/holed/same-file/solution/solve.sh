#!/bin/sh
printf '%s\n' Monday Tuesday Wednesday Thursday Friday Saturday Sunday > /workspace/days.txt
