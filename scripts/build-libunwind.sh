#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds libunwind static and position-independent from the distribution's source package: Debian's own
# libunwind.a is not position-independent, and its shared library would take over the host's C++ exceptions.
# libunwind-VERSION.patch beside this script mends what the distributions' versions lack.
#
# Usage: build-libunwind.sh DEPS [CROSS]     result: DEPS/libunwind-TRIPLET/{include,lib/libunwind.a}
# Where apt has no source of the pinned version, libunwind's own release is built, from another package of it or from
# LIBUNWIND_TARBALL=/path/libunwind-1.6.2.tar.gz
set -eu

deps=$1
cross=${2:-}
scripts=$(cd "$(dirname "$0")" && pwd)
pins=$scripts/libunwind.sha256
mkdir -p "$deps"
deps=$(cd "$deps" && pwd)
cc=${cross:+$cross-}gcc
triplet=$($cc -dumpmachine)
prefix=$deps/libunwind-$triplet

# Two makes may share one folder of dependencies.
exec 9>"$deps/libunwind.lock"
flock 9
made_of=$(cat "$scripts/build-libunwind.sh" "$pins" "$scripts"/libunwind-*.patch | sha256sum)
[ "$(cat "$prefix/done" 2>/dev/null)" = "$made_of" ] && exit 0

# shellcheck disable=SC1091
. /etc/os-release
distribution=$ID-${VERSION_ID:-} suite=${VERSION_CODENAME:-}
if [ "$ID" = debian ]; then distribution=debian-12 suite=bookworm; fi # whose mirrors have several releases
work=$deps/libunwind-src
rm -rf "$work/tree" "$work/new"
echo "build-libunwind: building for $triplet (once; a quarter of a minute)"
mkdir -p "$work"
cd "$work"

verify() { # NAME-IN-THE-PINS FILE
    want=$(awk -v d="$distribution" -v f="$1" '$1 == d && $3 == f {print $4}' "$pins")
    if [ "$want" != "$(sha256sum "$2" | cut -d' ' -f1)" ]; then
        echo "build-libunwind: $2 is not the file pinned in $pins (want ${want:-none})" >&2
        rm -f "$2"
        return 1
    fi
}

take_source() {
    "$scripts/apt-private.sh" --suite "$suite" source --download-only "$@"
}

unpack_package() {
    version=$(awk -v d="$distribution" '$1 == d {print $2; exit}' "$pins")
    [ -n "$version" ] || return 1
    files=$(awk -v d="$distribution" '$1 == d {print $3}' "$pins")
    # shellcheck disable=SC2086 # a list
    ls $files >/dev/null 2>&1 || take_source "libunwind=$version" || return 1
    for file in $files; do verify "$file" "$file" || return 1; done
    dpkg-source -q --no-check -x "libunwind_$version.dsc" tree || return 1
    version=${version%%-*}
}

use_release() { # TARBALL: libunwind's release archive, which is the one in Debian 12
    distribution=debian-12
    version=1.6.2
    verify libunwind_1.6.2.orig.tar.gz "$1" || return 1
    mkdir tree
    tar -xzf "$1" -C tree --strip-components=1
}

if [ -n "${LIBUNWIND_TARBALL:-}" ]; then
    cp "$LIBUNWIND_TARBALL" libunwind.tar.gz
    use_release libunwind.tar.gz || exit 1
elif ! unpack_package; then
    rm -rf tree
    release=libunwind_1.6.2.orig.tar.gz
    [ -e $release ] || take_source --tar-only libunwind || :
    if ! { [ -e $release ] && use_release $release; }; then
        echo "build-libunwind: apt has no source of libunwind that is pinned for $distribution; set LIBUNWIND_TARBALL to" >&2
        echo "libunwind 1.6.2's release archive, which its project has at GNU Savannah" >&2
        exit 1
    fi
fi

if ! patch -d tree -p1 <"$scripts/libunwind-$version.patch" >patch.log 2>&1; then
    cat patch.log >&2
    exit 1
fi

# Equal times: a patch to configure.ac must not ask for autoconf.
find tree -exec touch -d @1000000000 {} +
chmod 755 tree/src/ia64/mk_cursor_i 2>/dev/null || :
mkdir -p "tree/build"
cd tree/build
../configure ${cross:+--host="$cross"} --prefix="$prefix" --libdir="$prefix/lib" CC="$cc" \
    CFLAGS="-O2 -g -fPIC -fvisibility=hidden -fcommon -U_FORTIFY_SOURCE" \
    --disable-shared --enable-static --with-pic --disable-cxx-exceptions --disable-minidebuginfo \
    --disable-zlibdebuginfo --disable-documentation --disable-tests --disable-coredump --disable-ptrace \
    --disable-setjmp >configure.log 2>&1 || {
    tail -n 30 configure.log >&2
    exit 1
}
unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that called us
if ! make -j"$(nproc)" >make.log 2>&1 || ! make install DESTDIR="$work/new" >>make.log 2>&1; then
    tail -n 30 make.log >&2
    exit 1
fi
# It would hide the compiler's own.
rm -f "$work/new$prefix/include/unwind.h"
cp ../COPYING "$work/new$prefix/"
echo "$made_of" >"$work/new$prefix/done"
rm -rf "$prefix"
mv "$work/new$prefix" "$prefix"
cd "$work"
rm -rf tree new
