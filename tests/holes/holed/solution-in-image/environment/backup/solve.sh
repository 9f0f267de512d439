#!/bin/sh
echo 'the cipher is old but the message is new' > /workspace/message.txt
