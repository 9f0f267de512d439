#!/bin/sh
cd /workspace
awk '
    /^#/ || /^$/ { next }
    {
        at = index($0, "=")
        values[substr($0, 1, at - 1)] = substr($0, at + 1)
    }
    END { for (key in values) if (values[key] != "") print key "=" values[key] }
' defaults.env local.env | LC_ALL=C sort > settings.env
