# on: py check direct
# A configuration file of half a million empty lines is left for the comparison with the image's.
# cause: a pattern over an agent's file takes the square of its lines
python3 -c "open('/workspace/pyproject.toml', 'w').write('\\n' * 500_000)"
python3 -c "open('/workspace/setup.cfg', 'w').write('[' * 500_000)"
