#!/bin/sh
tr 'a-z' 'x-za-w' < /workspace/coded.txt > /workspace/message.txt
