#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds libunwind static and position-independent from the distribution's source package: Debian's own
# libunwind.a is not position-independent, and its shared library would take over the host's C++ exceptions.
# libunwind-VERSION.patch beside this script mends what the distributions' versions lack.
#
# Usage: build-libunwind.sh DEPS [CROSS]     result: DEPS/libunwind-TRIPLET/{include,lib/libunwind.a}
# Where the archive has no source of the pinned version, libunwind's own release is built, from Debian's archive or from
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
distribution=$ID-$VERSION_ID
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

instead() { # WHY
    echo "build-libunwind: $1; set LIBUNWIND_TARBALL to libunwind 1.6.2's release archive," >&2
    echo "which is at https://download.savannah.nongnu.org/releases/libunwind/" >&2
}

unpack_package() {
    version=$(awk -v d="$distribution" '$1 == d {print $2; exit}' "$pins")
    if [ -z "$version" ]; then
        instead "no libunwind is pinned for $distribution"
        return 1
    fi
    files=$(awk -v d="$distribution" '$1 == d {print $3}' "$pins")
    for file in $files; do
        if [ ! -e "$file" ]; then
            if ! "$scripts/apt-private.sh" "$deps/apt" update ||
                ! "$scripts/apt-private.sh" "$deps/apt" source --download-only "libunwind=$version"; then
                instead "the package archive does not hand out the source of libunwind $version"
                return 1
            fi
            rm -rf "$deps/apt" # 50 MB of package lists
            break
        fi
    done
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

# For mirrors that have no sources, or no longer this version's.
fetch_release() {
    echo "build-libunwind: taking libunwind 1.6.2's release archive from deb.debian.org instead" >&2
    python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' \
        http://deb.debian.org/debian/pool/main/libu/libunwind/libunwind_1.6.2.orig.tar.gz libunwind.tar.gz 2>fetch.log ||
        { tail -n 1 fetch.log >&2; return 1; }
}

if [ -n "${LIBUNWIND_TARBALL:-}" ]; then
    cp "$LIBUNWIND_TARBALL" libunwind.tar.gz
    use_release libunwind.tar.gz
elif ! unpack_package; then
    rm -rf tree
    fetch_release && use_release libunwind.tar.gz || exit 1
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
