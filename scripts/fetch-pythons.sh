#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks interpreters of Debian's other suites beside the other dependencies, for the tests of Python frames: nothing is
# installed, and a suite newer than the system brings its own C library.
#
# Usage: fetch-pythons.sh DEPS [SUITE...]     result: DEPS/pythons/SUITE/{usr,...}, one or more usr/bin/python3.*
#        fetch-pythons.sh DEPS packages       result: DEPS/pythons/packages-3.*, for the machine's own interpreters with pip
#        fetch-pythons.sh --list DEPS         prints a line for each interpreter of this machine and of DEPS:
#                                             version, shared|static, command (of several words, separated by tabs)
# The packages are pinned in pythons.sha256. A suite that moves on has other ones: it is skipped, with the reason in
# DEPS/pythons/SUITE.skipped, until the pins are renewed.
set -eu

scripts=$(cd "$(dirname "$0")" && pwd)
pins=$scripts/pythons.sha256

# ---- list -----------------------------------------------------------------------------------------
# A command, in words behind tabs, of an unpacked interpreter.
unpacked() { # FOLDER PROGRAM
    libraries=$1/usr/lib/x86_64-linux-gnu
    loader=$libraries/ld-linux-x86-64.so.2
    if [ -e "$loader" ]; then
        printf '%s\t--library-path\t%s\t%s\n' "$loader" "$libraries" "$2"
    else
        printf 'env\tLD_LIBRARY_PATH=%s\t%s\n' "$libraries" "$2"
    fi
}

list() { # DEPS
    {
        for program in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3 /usr/bin/python3; do
            if [ -x "$program" ]; then echo "$program"; fi
        done
        case :$PATH: in
        *:/usr/local/bin:*) if [ -x /usr/local/bin/python3 ]; then echo /usr/local/bin/python3; fi ;;
        esac
        for program in "$1"/pythons/*/usr/bin/python3.*; do
            if [ -x "$program" ]; then unpacked "${program%/usr/bin/*}" "$program"; fi
        done
    } | while read -r line; do
        say='import sys, sysconfig; v = sys.version_info
if v >= (3, 9): print("%d.%d.%d%s" % (*v[:3], "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""),
    "shared" if any("libpython3." in m for m in open("/proc/self/maps")) else "static", sep="\t")'
        IFS='	'
        # shellcheck disable=SC2086 # words behind tabs
        version=$($line -I -S -c "$say" 2>/dev/null) || continue
        if [ -n "$version" ]; then printf '%s\t%s\n' "$version" "$line"; fi
    done
}

# ---- fetch ----------------------------------------------------------------------------------------
skip() { # SUITE REASON
    echo "$2" >"$deps/pythons/$1.skipped"
    echo "fetch-pythons: $1: $2" >&2
}

download() { # SUITE
    # shellcheck disable=SC2046 # a list
    "$scripts/apt-private.sh" --suite "$1" download $(awk -v s="$1" '$1 == s {print $2 "=" $3}' "$pins") >/dev/null 2>&1
}

verify() { # SUITE
    for package in *.deb; do
        name=$(dpkg-deb -f "$package" Package)
        want=$(awk -v s="$1" -v p="$name" '$1 == s && $2 == p {print $4}' "$pins")
        if [ "$want" != "$(sha256sum "$package" | cut -d' ' -f1)" ]; then
            echo "$name"
            return
        fi
    done
}

fetch() { # SUITE
    target=$deps/pythons/$1
    [ -e "$target/done" ] && return
    rm -rf "$target" "$target.skipped"
    mkdir -p "$target/debs"
    cd "$target/debs"
    download "$1" && had=0 || had=$?
    if [ "$had" = 3 ]; then
        skip "$1" "the suite cannot be reached"
    elif [ "$had" != 0 ]; then
        skip "$1" "it no longer has the packages that pythons.sha256 names"
    elif wrong=$(verify "$1") && [ -n "$wrong" ]; then
        skip "$1" "$wrong is not the package pinned in pythons.sha256"
    else
        for package in *.deb; do dpkg-deb -x "$package" "$target"; done
        touch "$target/done"
    fi
    rm -rf "$target/debs"
    [ -e "$target/done" ] || rm -rf "$target"
}

# From python-packages.txt, which has their hashes.
fetch_packages() {
    [ -e "$deps/pythons/packages.done" ] && return
    rm -f "$deps/pythons/packages.skipped"
    for python in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3; do
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2], sys.version_info >= (3, 9))') || continue
        [ "${version#* }" = True ] || continue
        target=$deps/pythons/packages-${version% *}
        rm -rf "$target"
        if ! "$python" -m pip --disable-pip-version-check install -q --no-deps --require-hashes --only-binary :all: \
            --target "$target" -r "$scripts/python-packages.txt" >"$deps/pythons/packages.log" 2>&1; then
            rm -rf "$target"
            skip packages "PyPI: $(grep -m 1 ERROR "$deps/pythons/packages.log" || echo 'it cannot be reached')"
            return
        fi
    done
    touch "$deps/pythons/packages.done"
}

if [ "${1:-}" = --list ]; then
    list "$(cd "$2" && pwd)"
    exit 0
fi
mkdir -p "$1"
deps=$(cd "$1" && pwd)
shift
mkdir -p "$deps/pythons"
exec 9>"$deps/pythons/lock"
flock 9
# shellcheck disable=SC2046 # a list
[ $# -gt 0 ] || set -- $(awk '!/^#/ {print $1}' "$pins" | sort -u)
# shellcheck disable=SC1091
. /etc/os-release
for suite; do
    cd "$deps" # a folder that stays
    if [ "$suite" = packages ]; then
        fetch_packages
    elif [ "$ID" != debian ] || [ "$(dpkg --print-architecture)" != amd64 ]; then
        skip "$suite" "only on Debian, amd64"
    else
        fetch "$suite"
    fi
done
