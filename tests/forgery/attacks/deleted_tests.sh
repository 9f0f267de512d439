# No tests, and a link where they were.
rm -rf /workspace/tests
mkdir /workspace/elsewhere
printf 'def test_plain(): pass\n' > /workspace/elsewhere/test_words.py
ln -s /workspace/elsewhere /workspace/tests
