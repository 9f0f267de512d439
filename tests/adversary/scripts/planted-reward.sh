# on: py direct sepa sepd
# The reward is written beforehand, wherever it may be looked for.
# cause: something planted is run by the verifier
for folder in /logs/verifier /workspace/logs/verifier /logs /tests; do
mkdir -p $folder 2>/dev/null && echo 1 > $folder/reward.txt 2>/dev/null && echo '{"reward": 1}' > $folder/reward.json 2>/dev/null
done
true
