#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks the libraries of another architecture that the cross build links (Debian's own packages) beside
# the other dependencies: the system is not made multi-arch for it.
#
# Usage: fetch-cross-libraries.sh aarch64-linux-gnu DEPS     result: DEPS/aarch64-linux-gnu/usr/...
set -eu

triplet=$1
deps=$(cd "$2" && pwd)
scripts=$(cd "$(dirname "$0")" && pwd)
case $triplet in
aarch64-linux-gnu) arch=arm64 ;;
*)
    echo "fetch-cross-libraries: only aarch64-linux-gnu, not '$triplet'" >&2
    exit 2
    ;;
esac
target=$deps/$triplet

exec 9>"$deps/cross.lock"
flock 9
[ -e "$target/done" ] && exit 0
rm -rf "$target"
mkdir -p "$target/debs"
cd "$target/debs"
"$scripts/apt-private.sh" --arch "$arch" download "libzstd-dev:$arch" "libxxhash-dev:$arch" "libcmocka-dev:$arch" "libcmocka0:$arch"
for package in *.deb; do dpkg-deb -x "$package" "$target"; done
rm -rf "$target/debs"
touch "$target/done"
