#!/bin/sh
printf 'fetch\nbuild\ntest\npack\nannounce\ngreet\n' > /workspace/order.txt
