from caesar import shift

assert shift("Hello, xyz!", 3) == "Khoor, abc!"
assert shift("Khoor, abc!", -3) == "Hello, xyz!"
assert shift("", 5) == ""
