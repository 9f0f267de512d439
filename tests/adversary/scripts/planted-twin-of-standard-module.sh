# on: py direct sepa sepd
# Modules with names of the standard library lie beside the module.
# cause: something planted is run by the verifier
for name in json random os re unittest typing pytest _pytest pluggy iniconfig; do
printf 'import sys\nsys.exit(0)\n' > /workspace/$name.py
done
