def words():
    return open("/workspace/essay.txt").read().split()


# First its form, then its content.
assert len(words()) == 10
assert len(set(words())) == 10
assert {"river", "stone"} <= set(words())
