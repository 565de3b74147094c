#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing cutrace needs and this machine lacks, and nothing else.
# Debian 12 and Ubuntu 22.04 (apt, with sudo where needed); elsewhere it says what to install by hand.
#
# Usage: setup.sh [build|all|bench]     setup.sh --list [build|all|bench] prints the packages, missing or not
#   build: to build and test (default)   all: also what else continuous integration checks   bench: also the peer of `make bench`
set -eu

list_only=
if [ "${1:-}" = --list ]; then
    list_only=1
    shift
fi
want=${1:-build}
case $want in
build | all | bench) ;;
*)
    echo "usage: setup.sh [--list] [build|all|bench]" >&2
    exit 2
    ;;
esac

# Each line: the package, then a command that succeeds where what it brings is there already.
needs() {
    cat <<'LIST'
gcc                   command -v gcc
libc6-dev             has_header stdio.h
make                  command -v make
binutils              command -v readelf && command -v objcopy
dpkg-dev              command -v dpkg-source
util-linux            command -v flock
xz-utils              command -v xz
ca-certificates       test -e /etc/ssl/certs/ca-certificates.crt
libzstd-dev           has_header zstd.h && has_archive libzstd.a
libxxhash-dev         has_header xxhash.h
libdw-dev             has_header elfutils/libdwfl.h
libiberty-dev         has_header libiberty/demangle.h && has_archive libiberty.a
libsqlite3-dev        has_header sqlite3.h && has_archive libsqlite3.a
liblzma-dev           has_archive liblzma.a
libbz2-dev            has_archive libbz2.a
zlib1g-dev            has_header zlib.h && has_archive libz.a
dwz                   command -v dwz
libcmocka-dev         has_header_after "stdarg.h stddef.h setjmp.h stdint.h" cmocka.h
zstd                  command -v zstd
bats                  command -v bats
python3               command -v python3
python3-fastjsonschema has_fastjsonschema
g++                   command -v g++
LIST
    if ! has_cuda_headers || [ "$want" = all ]; then
        echo 'python3-venv          python3 -m pip --version || python3 -c "import venv, ensurepip"'
    fi
    if [ "$want" = bench ]; then
        echo 'heaptrack             command -v heaptrack'
    fi
    [ "$want" = all ] || return 0
    # The sanitizers of clang have a package of their own only since Debian 12. Ubuntu's chromium is no package but a snap.
    if grep -q '^ID=ubuntu' /etc/os-release 2>/dev/null; then
        echo 'libclang-common-14-dev can_clang_sanitize'
    else
        echo 'libclang-rt-dev       can_clang_sanitize'
        echo 'chromium              has_browser'
    fi
    cat <<'LIST'
spin                  command -v spin
clang                 command -v clang
clang-format          command -v clang-format
clang-tidy            command -v clang-tidy
shellcheck            command -v shellcheck
mandoc                command -v mandoc
lintian               command -v lintian
jq                    command -v jq
zsh                   command -v zsh
nodejs                command -v node
npm                   command -v npm
poppler-utils         command -v pdftotext
gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/include/stdio.h
qemu-user             command -v qemu-aarch64
btrfs-progs           command -v mkfs.btrfs
libjemalloc2          has_library libjemalloc.so.2
libtcmalloc-minimal4  has_library libtcmalloc_minimal.so.4
LIST
}

has_header() {
    echo "#include <$1>" | gcc -E -x c - >/dev/null 2>&1
}
has_header_after() {
    # shellcheck disable=SC2086 # a list
    { printf '#include <%s>\n' $1 "$2"; } | gcc -E -x c - >/dev/null 2>&1
}
has_library() {
    PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep -qF "$1 "
}
has_browser() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}
can_clang_sanitize() {
    echo 'int main(void) { return 0; }' | clang -fsanitize=address -x c - -o /dev/null
}
has_archive() { # (where there is none, gcc prints the bare name; where there is no gcc, nothing is printed)
    case "$(gcc -print-file-name="$1" 2>/dev/null)" in */*) ;; *) false ;; esac
}
has_fastjsonschema() { # as tests/lib/schema.py finds it
    python3 -c 'import sys; sys.path.append("/usr/lib/python3/dist-packages"); import fastjsonschema'
}
has_cuda_headers() {
    for folder in "${CUDA_HOME:+$CUDA_HOME/include}" /usr/local/cuda/include /usr/include; do
        if [ -n "$folder" ] && [ -e "$folder/cuda.h" ]; then return 0; fi
    done
    return 1
}

list=$(needs)
if [ -n "$list_only" ]; then
    printf '%s\n' "$list" | cut -d ' ' -f 1
    exit 0
fi
missing=$(printf '%s\n' "$list" | while read -r package test; do
    eval "$test" >/dev/null 2>&1 || echo "$package"
done)
if [ -z "$missing" ]; then
    echo "setup: everything is there"
    exit 0
fi
# shellcheck disable=SC2086 # one line
echo "setup: missing:" $missing

if ! command -v apt-get >/dev/null 2>&1; then
    cat >&2 <<'TEXT'
setup: this is not Debian or Ubuntu; please install by hand what stands above (Debian's package names):
  gcc, make, binutils, patch    the C compiler (C11), GNU make 4.3 or newer, readelf and objcopy
  libzstd (headers, libzstd.a)  position-independent static library
  xxhash (header), cmocka       for the library's tables and for the unit tests
  elfutils (headers of libdw), libiberty (header and libiberty.a; part of binutils)
                                for source lines and demangled names; without them cutrace-report does without
  liblzma, bzip2, libdw (liblzma.a, libbz2.a, libdw.a, libelf.a)
                                for `make wheel`, `make deb` and `make tarball`
  SQLite, zlib (headers, libsqlite3.a, libz.a)
                                for two formats of `cutrace-report export`; without them it does without
  zstd, bats, python3, g++      for the tests
  fastjsonschema                for Python, from PyPI or as a package: the tests validate JSON by it
  libunwind                     not the package: download the 1.6.2 release archive and say
                                LIBUNWIND_TARBALL=/path/libunwind-1.6.2.tar.gz make
TEXT
    exit 1
fi

sudo=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        # shellcheck disable=SC2086 # one line
        echo "setup: neither root nor sudo; run as root: apt-get install --no-install-recommends" $missing >&2
        exit 1
    }
    sudo='sudo -E'
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # lists
install_missing() {
    $sudo apt-get install -qq -y --no-install-recommends $missing >/dev/null
}
# The package lists may be absent or too old.
install_missing 2>/dev/null || {
    $sudo apt-get update -qq
    install_missing
}

list=$(needs)
left=$(printf '%s\n' "$list" | while read -r package test; do
    eval "$test" >/dev/null 2>&1 || echo "$package"
done)
if [ -n "$left" ]; then
    # shellcheck disable=SC2086 # one line
    echo "setup: still missing after installing:" $left >&2
    exit 1
fi
echo "setup: done"
