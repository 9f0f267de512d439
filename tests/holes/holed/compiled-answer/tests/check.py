from luhn import checksum

assert checksum("79927398713")
assert not checksum("79927398710")
assert checksum("4539148803436467")
assert not checksum("4539148803436476")
