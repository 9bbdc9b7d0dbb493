#!/bin/sh
# make_man.sh POOLCUDA TEMPLATE VERSION OUTPUT: puts version and option table into the man page.
set -e
table=$("$1" options --man)
while IFS= read -r line; do
    case $line in
    @options@) printf '%s\n' "$table" ;;
    *) printf '%s\n' "$line" ;;
    esac
done <"$2" | sed "s/@version@/$3/" >"$4"
