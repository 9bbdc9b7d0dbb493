# Shared by the scripts: installs what is missing, finds or fetches CUDA's headers, configures a build.
# shellcheck shell=bash
# To be sourced by bash with the repository's root as working directory.
set -u
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
PYTHON=/usr/bin/python3
LOGS=build/logs
mkdir -p "$LOGS"

say() {
    printf '%s\n' "$*"
}

# explain ARGUMENT...: where --help is among them, prints what the head of the script says, and ends it: before
# anything is installed.
explain() {
    local argument
    for argument in "$@"; do
        case $argument in
        --help | -h)
            sed -n '2,/^[^#]/s/^# \{0,1\}//p' "scripts/${0##*/}"
            exit 0
            ;;
        esac
    done
}

# refuse ARGUMENT EXPECTED: ends the script with 2 after one line. To be called before anything is installed or built.
refuse() {
    say "scripts/${0##*/}: ${1:-\"\"}: unknown, expected $2"
    exit 2
}

TELL_EVERY=20 # seconds

# watched LOG WHAT COMMAND...: runs it with its output in LOG, and says now and then how far it is.
watched() {
    local log=$1 what=$2 start=$SECONDS told=$SECONDS process line
    shift 2
    "$@" >"$log" 2>&1 &
    process=$!
    while kill -0 "$process" 2>/dev/null; do
        sleep 0.2
        [ $((SECONDS - told)) -ge "$TELL_EVERY" ] || continue
        told=$SECONDS
        line=$(grep '[^.[:space:]]' "$log" | tail -n 1) # dots alone tell nothing
        say "    $what: $((SECONDS - start)) s, now: ${line:0:100}"
    done
    wait "$process"
}

# apt_install PACKAGE...: with what they depend on. The log says what was downloaded.
apt_install() {
    apt-get update -q && apt-get install -y -q --no-install-recommends "$@"
}

# need PACKAGE...: installs those Debian packages that are not installed.
need() {
    local missing=() package start=$SECONDS log
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    say "installing ${missing[*]}"
    log=$LOGS/install-$(date +%H%M%S).log
    if ! watched "$log" installing apt_install "${missing[@]}"; then
        tail -n 5 "$log"
        say "could not install ${missing[*]}: run this as root with a network; see $log"
        exit 1
    fi
    say "installed in $((SECONDS - start)) s: $(sed -n 's/^Fetched \(.*B\) in.*/\1 downloaded/p; s/^After this operation, \(.*B\) of additional.*/\1 on disk,/p' "$log" |
        tail -n 2 | tr '\n' ' ')"
}

# fetch_headers MAJOR: CUDA's headers of that major version by pip into build/cuda-headers-MAJOR.
# Prints the include folder. The runtime's headers need the compiler's crt/ beside them.
fetch_headers() {
    local target=build/cuda-headers-$1 packages include
    case $1 in
    12) packages="nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-nvcc-cu12==12.9.86" include=nvidia/cuda_runtime/include ;;
    13) packages="nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88" include=nvidia/cu13/include ;;
    esac
    if [ ! -f "$target/$include/crt/host_defines.h" ]; then
        # shellcheck disable=SC2086 # a list of words
        $PYTHON -m pip install --progress-bar off --disable-pip-version-check --no-deps --upgrade \
            --target "$target" $packages >"$LOGS/headers-$1.log" 2>&1 || {
            say "could not fetch CUDA $1 headers by pip: see $LOGS/headers-$1.log" >&2
            return 1
        }
        [ "$1" = 13 ] || cp -r "$target/nvidia/cuda_nvcc/include/crt" "$target/$include/"
    fi
    say "$PWD/$target/$include"
}

# The include folder to build with: what the machine has, else what pip has.
cuda_headers() {
    local found
    found=$(scripts/find-cuda-headers)
    if [ -n "$found" ]; then
        say "$found"
    else
        need python3-pip >&2
        fetch_headers 13
    fi
}

# configure FOLDER OPTION...: meson setup, again if it was done before.
configure() {
    local folder=$1 again=
    shift
    [ -f "$folder/build.ninja" ] && again=--reconfigure
    # shellcheck disable=SC2086 # empty or one word
    meson setup $again "$folder" "$@"
}

# configure_shared FOLDER HEADERS: as the scripts want the folder that they share, with no trace of what was missing when
# another one made it. Meson guesses libdir from dpkg-dev, which may come later. Warnings are errors of the compiler
# alone whose warnings are known.
configure_shared() {
    local strict=false
    [ "$(gcc -dumpversion)" = 12 ] && strict=true
    configure "$1" -Dcudainc="$2" -Dlibdir="lib/$(gcc -print-multiarch)" -Dwerror=$strict
}

# build HEADERS [TARGET...]: everything, or these targets, in the folder build/.
build() {
    configure_shared build "$1" && ninja -C build "${@:2}"
}

# built HEADERS [TARGET...]: as build, for scripts that cannot go on without it.
built() {
    watched "$LOGS/build.log" building build "$@" && return
    tail -n 30 "$LOGS/build.log"
    say "the build failed: see $LOGS/build.log"
    exit 1
}

BUILD_PACKAGES="gcc libc6-dev meson ninja-build pkg-config binutils uthash-dev libbsd-dev \
    libcmocka-dev zlib1g-dev libzstd-dev libjansson-dev libelf-dev libcairo2-dev libncurses-dev python3"
