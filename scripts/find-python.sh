#!/bin/sh
# Prints the Python that the virtual environment is made with: the oldest supported version on PATH, and of several of
# that version one built with profile-guided optimisation, as those of distributions are. Others (pyenv's, by default)
# run the tests about 1.4 times slower. A name that does not run, such as a shim without its version, is passed over.
facts='import sys, sysconfig
optimised = sys.base_prefix == "/usr" or "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
print("old" if sys.version_info < (3, 11) else "optimised" if optimised else "plain")'
for name in python3.11 python3.12 python3.13 python3; do
    plain=
    IFS=:
    for folder in $PATH; do
        case $("$folder/$name" -c "$facts" 2>/dev/null) in
        optimised) echo "$folder/$name"; exit ;;
        plain) plain=${plain:-$folder/$name} ;;
        esac
    done
    [ -z "$plain" ] || { echo "$plain"; exit; }
done
