# shellcheck shell=bash
# A client: hashcat measures how fast it makes digests of five kinds, all in one process, and prints for which it could; then it
# looks for the word of a digest of each kind among all words of four letters, and prints how far it came. $1: the folder that
# programs/hashes_made.sh made.
hashes() {
    "$1/hashcat" --backend-ignore-opencl --self-test-disable --potfile-disable --logfile-disable --restore-disable --machine-readable \
        --optimized-kernel-enable "${@:2}"
}
hashes "$1" --benchmark --benchmark-all |
    awk -F : '/^[0-9]+:/ { print "speed_" $2 ": " ($NF > 0 ? "measured" : "FAILED"); n++ } END { print "speeds: " n + 0 }'
for kind in 0:16 100:20 900:16 1000:16 1400:32; do # and of how many bytes its digests are
    digest=$(printf '%02x' $(seq "${kind#*:}"))
    hashes "$1" --status --hash-type "${kind%:*}" --attack-mode 3 "$digest" '?l?l?l?l' | tr '\r' '\n' |
        awk -v name="words_${kind%:*}" -F '\t' '$1 == "STATUS" { told = "status " $2 "," $8 " " $9 " of " $10 }
            END { print name ": " (told ? told : "FAILED") }'
done
