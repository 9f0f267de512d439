import atexit

atexit.register(lambda: open("/tmp/finished", "w").close())

from runs import pack

assert pack("aaab") == "a3b1"
assert pack("abc") == "a1b1c1"
assert pack("") == ""
assert pack("zzzzzzzzzzzz") == "z12"
