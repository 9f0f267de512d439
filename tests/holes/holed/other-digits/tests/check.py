code = open("/workspace/code.txt", encoding="utf-8").read().strip()
assert code.isdigit(), code
assert not set(code) & set("3567"), code
if code.isdecimal():
    assert len(code) == 6 and sum(int(digit) for digit in code) == 30, code
