# Nobody may look, and links lead in circles.
ln -s /workspace/loop /workspace/loop
mkdir -p /workspace/deep/deeper
printf 'raise SystemExit(0)\n' > /workspace/deep/conftest.py
chmod 000 /workspace/deep
chmod 000 /workspace/tests /workspace/words.py
mkdir -p /logs/verifier && chmod 000 /logs/verifier
true
