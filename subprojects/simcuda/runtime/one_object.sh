#!/bin/sh
# one_object.sh COMPILER... ARCHIVE OUTPUT: OUTPUT becomes an archive with one object, all of ARCHIVE. Programs may give to
# what is theirs the names that the runtime has inside.
set -e
compiler=
while [ $# -gt 2 ]; do
    compiler="$compiler $1"
    shift
done
$compiler -r -nostdlib -Wl,--whole-archive "$1" -o "$2.o"
"$($compiler -print-prog-name=objcopy)" --wildcard --keep-global-symbol='cuda*' --keep-global-symbol='__cuda*' "$2.o"
rm -f "$2"
${AR:-ar} rcs "$2" "$2.o"
