# on: py direct sepa sepd
# The work is committed to a repository in the working folder.
# cause: honest work
cd /workspace
git init -q . 2>/dev/null && git config user.email a@example.org && git config user.name a && git add -A && git commit -qm start
SOLVE
git add -A 2>/dev/null && git commit -qm 'repair the ledger' 2>/dev/null
true
