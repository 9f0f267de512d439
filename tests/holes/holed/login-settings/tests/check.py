assert open("/workspace/sorted.txt").read().split() == ["ada", "bob", "mia", "zoe"]
