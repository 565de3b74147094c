#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches what checks the packages, as tests/build_system/test_packages.py uses it; nothing is installed outside of the folder.
#
# Usage: fetch-tools.sh DEPS    result, each where it can be had (else DEPS/package-tools/NAME.skipped has the reason):
#   DEPS/package-tools/python      auditwheel and twine, from PyPI (tools.txt)
#   DEPS/package-tools/old-glibc   the C library of an older release (2.31), with its loader
set -u
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?folder}/package-tools"
target=$(cd "$1/package-tools" && pwd)
# shellcheck disable=SC1091 # (fetch-parts.sh is checked by itself)
. "$here/../fetch-parts.sh"

fetch_python() {
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes --target . \
        --requirement "$here/tools.txt"
}
fetch_old_glibc() { # (checked by apt's signatures)
    # shellcheck disable=SC1091
    . /etc/os-release
    case $ID in
    debian) suite=bullseye ;;
    ubuntu) suite=focal ;;
    *) echo "neither Debian nor Ubuntu: not found" && return 1 ;;
    esac
    "$here/../apt-private.sh" --suite "$suite" download "libc6/$suite" &&
        dpkg-deb -x libc6_*.deb all && mv all/lib/*-linux-gnu/* . && rm -rf all libc6_*.deb
}
fetch_parts "$target" "$(cat "$here/tools.txt" "$here/fetch-tools.sh" | sha256sum)" python old-glibc
