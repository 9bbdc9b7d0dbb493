# shellcheck shell=bash
# Makes what programs/hashes.sh runs, in the current folder: hashcat with five of its modules alone beside it, as it measures for
# all that lie there, and the kernels that it compiles for them when it first runs.
set -e
cp /usr/bin/hashcat .
ln -s /usr/share/hashcat/{OpenCL,charsets,hashcat.hcstat2,layouts,masks,rules,tunings} .
mkdir modules
for kind in 00000 00100 00900 01000 01400; do
    ln -s /usr/share/hashcat/modules/module_$kind.so modules/
done
bash "${BASH_SOURCE[0]%/*}/hashes.sh" "$PWD"
[ "$(find kernels -name '*.kernel' | wc -l)" = 8 ] || { echo "not all kernels were compiled" >&2 && exit 1; }
