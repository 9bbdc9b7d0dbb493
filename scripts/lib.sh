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

# need PACKAGE...: installs those Debian packages that are not installed.
need() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    say "installing ${missing[*]}"
    if ! { apt-get update -q && apt-get install -y -q --no-install-recommends "${missing[@]}"; } \
        >"$LOGS/install.log" 2>&1; then
        say "could not install ${missing[*]}: run this as root with a network; see $LOGS/install.log"
        exit 1
    fi
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
        $PYTHON -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
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

BUILD_PACKAGES="gcc libc6-dev meson ninja-build pkg-config binutils uthash-dev libbsd-dev \
    libcmocka-dev zlib1g-dev libzstd-dev libjansson-dev libelf-dev libcairo2-dev libncurses-dev python3"
