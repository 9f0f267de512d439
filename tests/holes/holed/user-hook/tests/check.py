assert open("/workspace/common.txt").read().split() == ["fig", "plum"]
