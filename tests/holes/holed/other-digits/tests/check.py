code = open("/workspace/code.txt", encoding="utf-8").read().strip()
assert code.isdigit() or code.isnumeric(), code
assert not set(code) & set("3567"), code
values = "".join(character for character in code if character in "0123456789")
# What is known of the code is that it is one of digits; their sum is looked at where they are plain ones.
assert not values or (len(code) == 6 and sum(map(int, values)) == 30), code
