#!/bin/sh
# make_page.sh POOLCUDA PAGE TEMPLATE CHANGELOG OUTPUT: a man page from its template, which POOLCUDA fills from its
# tables. The page's date is the newest version's, so that builds can be reproduced.
set -e
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(date -u -d "$(sed -n 's/^## \[.*\] - //p' "$4" | head -n 1)" +%s)
    export SOURCE_DATE_EPOCH
fi
filled=$5.scd
"$1" --man-source="$2" <"$3" >"$filled"
scdoc <"$filled" >"$5"
rm "$filled"
