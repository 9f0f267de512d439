# on: py sepa
# A project file, notes and a scratch script are left behind.
# cause: honest work
SOLVE
cd /workspace
printf '[project]\nname = "ledger"\nversion = "2"\n' > pyproject.toml
printf '# Notes\n\ntotal was wrong.\n' > NOTES.md
printf 'from ledger import total\nprint(total([("a", 1)]))\n' > scratch.py && python3 scratch.py
