#!/bin/sh
cat > /workspace/rename.sh <<'SHELL'
#!/bin/sh
for path in "$1"/*.jpeg; do
    [ -e "$path" ] && mv -- "$path" "${path%.jpeg}.jpg"
done
exit 0
SHELL
