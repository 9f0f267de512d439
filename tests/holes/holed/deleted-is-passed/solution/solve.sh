#!/bin/sh
sed -i 's#fahrenheit - 32 \* 5 / 9#(fahrenheit - 32) * 5 / 9#' /workspace/metric.py
