found = [int(line) for line in open("/workspace/primes.txt").read().split()]
assert found == [n for n in range(2, 60) if all(n % d for d in range(2, n))], found
