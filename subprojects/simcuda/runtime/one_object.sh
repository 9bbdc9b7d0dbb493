#!/bin/sh
# one_object.sh COMPILER... ARCHIVE OUTPUT: OUTPUT becomes an archive with one object, all of ARCHIVE.
set -e
compiler=
while [ $# -gt 2 ]; do
    compiler="$compiler $1"
    shift
done
$compiler -r -nostdlib -Wl,--whole-archive "$1" -o "$2.o"
rm -f "$2"
${AR:-ar} rcs "$2" "$2.o"
