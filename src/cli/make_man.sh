#!/bin/sh
# make_man.sh OPTIONS TEMPLATE VERSION OUTPUT: puts version and option table into the man page.
set -e
sed -e "s/@version@/$3/" -e "/^@options@\$/{r $1" -e 'd}' "$2" >"$4"
