set -e
export HOME=/tmp GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
cd /workspace
git init -q -b main .
cp /build/early.py slug.py
git add slug.py
git commit -q -m "A slug of a title"
git switch -q -c release
cp /build/late.py slug.py
git commit -q -a -m "Accents are dropped"
git switch -q main
