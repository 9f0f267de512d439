#!/bin/sh
# What the whole test suite uses beyond Python: installed as root, named otherwise. Tests that need a missing one
# skip aloud.
set -eu
missing=""
command -v bwrap >/dev/null || missing="$missing bubblewrap"
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
    missing="$missing chromium"
command -v chromium-headless-shell >/dev/null || missing="$missing chromium-headless-shell"
command -v faketime >/dev/null || missing="$missing faketime"
command -v git >/dev/null || missing="$missing git"
command -v podman >/dev/null || missing="$missing podman"
command -v runc >/dev/null || missing="$missing runc"
command -v valgrind >/dev/null || missing="$missing valgrind"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    printf 'assay: installing%s for the tests\n' "$missing" >&2
    # shellcheck disable=SC2086
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >/dev/null ||
        printf 'assay: could not install%s: the tests that need them will be skipped\n' "$missing" >&2
else
    printf 'assay: not installed:%s (the tests that need them are skipped)\n' "$missing" >&2
fi
