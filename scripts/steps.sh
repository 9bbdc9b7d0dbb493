# The steps of scripts/test: each runs with its output in a log, is counted, and has its time told.
# shellcheck shell=bash
# To be sourced behind lib.sh.

passed=0 failed=0 skipped=0
shares=()     # "SECONDS PROCESSOR_SECONDS NAME" of each step that ran
left_out=()   # "NAME: REASON" of each that did not
background=() # process groups that end with the script
behind_status=""

# shellcheck disable=SC2317 # called by the trap
end_background() {
    local group
    for group in "${background[@]}"; do
        kill -- "-$group" 2>/dev/null
    done
}
trap end_background EXIT

# in_background COMMAND...: as a process group of its own, $started, that ends with the script.
in_background() {
    setsid "$@" &
    started=$!
    background+=("$started")
}

# add PASSED FAILED SKIPPED
add() {
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

# of_children FILE: what the shell that wrote its times there had its processes take, in seconds.
of_children() {
    awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, part, /[ms]/); sum += part[1] * 60 + part[2] } } END { printf "%d", sum }' "$1"
}

# look_at_processors: $processors becomes the seconds that the processors have given to whatever has ended, but for what ran
# behind the steps: it ended in the midst of one, whose time it is not, and took $behind_took.
look_at_processors() {
    times >"$LOGS/times" # not in a subshell, which would tell its own
    behind_took=0
    [ -s "$behind_status" ] && behind_took=$(of_children "$behind_status.times")
    processors=$(($(of_children "$LOGS/times") - behind_took))
}

# spent NAME START PROCESSORS: the step took the time since then.
spent() {
    look_at_processors
    shares+=("$((SECONDS - $2)) $((processors - $3)) $1")
}

# ended NAME CODE START PROCESSORS: counts a step that ended with CODE as one test; shows the end of a failed one's log.
ended() {
    spent "$1" "$3" "$4"
    if [ "$2" -eq 0 ]; then
        say "ok: $1 ($((SECONDS - $3)) s)"
        add 1 0 0
    else
        tail -n 40 "$LOGS/$1.log"
        say "FAILED: $1 (status $2, whole log: $LOGS/$1.log)"
        add 0 1 0
        return 1
    fi
}

# step NAME COMMAND...: one test by itself, its output in a log.
step() {
    local name=$1 start=$SECONDS code before
    shift
    look_at_processors
    before=$processors
    watched "$LOGS/$name.log" "$name" "$@"
    code=$?
    ended "$name" $code "$start" "$before"
}

# behind NAME COMMAND...: a step that fills the time in which others leave a processor idle. join_behind waits for it.
# Its status is kept in a file: bash forgets how a process ended once a later one of its own has the same number,
# and a run of all tests goes through all 32,768 numbers many times.
behind() {
    behind_name=$1 behind_start=$SECONDS behind_status=$LOGS/$1.status
    shift
    rm -f "$behind_status"
    # shellcheck disable=SC2016 # the inner shell's words
    in_background sh -c 'nice "$@"; code=$?; times >"$0.times"; echo $code >"$0"' "$behind_status" "$@" \
        >"$LOGS/$behind_name.log" 2>&1
    behind_process=$started
}

join_behind() {
    local group left=() status
    wait "$behind_process" 2>/dev/null
    for group in "${background[@]}"; do
        [ "$group" = "$behind_process" ] || left+=("$group")
    done
    background=("${left[@]}")
    if ! read -r status <"$behind_status"; then
        say "$behind_name was killed before it ended"
        status=137
    fi 2>/dev/null
    look_at_processors
    ended "$behind_name" "$status" "$behind_start" $((processors - behind_took))
}

# counted NAME RESULTS COMMAND...: many tests, counted from the file of results that they write. A run that broke
# without a failing test must not pass.
counted() {
    local name=$1 results=$2 counts code start=$SECONDS before
    shift 2
    rm -f "$results"
    look_at_processors
    before=$processors
    watched "$LOGS/$name.log" "$name" "$@"
    code=$?
    spent "$name" "$start" "$before"
    counts=$("$PYTHON" scripts/count-results "$results")
    # shellcheck disable=SC2086 # three words
    add $counts
    case $counts in
    *" 0 "*)
        if [ $code -eq 0 ]; then
            say "ok: $name (${counts%% *} passed, ${counts##* } skipped; $((SECONDS - start)) s)"
            "$PYTHON" scripts/count-results --skips "$results"
            return 0
        fi
        add 0 1 0
        ;;
    esac
    tail -n 60 "$LOGS/$name.log"
    say "FAILED: $name (whole log: $LOGS/$name.log)"
    return 1
}

# not_run REASON NAME...: these steps could not be run.
not_run() {
    local reason=$1 name
    shift
    for name in "$@"; do
        left_out+=("$name: $reason")
    done
}

# finish: prints where the time went, what did not run, and the closing line; tells whether all is well.
finish() {
    local share used line
    say ""
    say "steps by time, of $SECONDS s, and what the processors gave to each:"
    printf '%s\n' "${shares[@]}" | sort -rn | while read -r share used line; do
        printf '%7d s %4d%% %7d s  %s\n' "$share" $((share * 100 / (SECONDS > 0 ? SECONDS : 1))) "$used" "$line"
    done
    for line in "${left_out[@]}"; do
        say "NOT RUN: $line"
    done
    say "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ] && [ ${#left_out[@]} -eq 0 ]
}
