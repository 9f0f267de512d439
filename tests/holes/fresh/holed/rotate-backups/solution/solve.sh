#!/bin/sh
cat > /workspace/rotate.sh <<'SCRIPT'
#!/bin/sh
folder=$1
keep=$2

if [ ! -d "$folder" ]; then
    echo "no such folder: $folder" >&2
    exit 1
fi
case $keep in
    '' | *[!0-9]*) echo "not a number: $keep" >&2; exit 1 ;;
esac
if [ "$keep" -lt 1 ]; then
    echo "keep at least one" >&2
    exit 1
fi

ls "$folder" | grep -E '^db-[0-9]{4}-[0-9]{2}-[0-9]{2}\.tar$' | sort -r | tail -n "+$((keep + 1))" |
    while IFS= read -r name; do
        rm -f "$folder/$name"
    done
SCRIPT
