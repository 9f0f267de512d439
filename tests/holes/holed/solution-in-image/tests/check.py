assert open("/workspace/message.txt").read().strip() == "the cipher is old but the message is new"
