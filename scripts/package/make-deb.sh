#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian package. Run by `make deb`.
#
# One package serves Debian 10, Ubuntu 20.04 and what came after them: it needs the C library alone, as old as its symbols
# say; everything else is linked in. (dpkg-shlibdeps would ask for the version in which glibc moved libpthread's functions.)
set -eu

# shellcheck disable=SC2153 # of the environment
case $ARCH in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*)
    echo "make-deb: no name of Debian's for $ARCH" >&2
    exit 1
    ;;
esac
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
to=$root/cutrace
doc=$to/usr/share/doc/cutrace
from=$STAGE/share

install -d "$to/DEBIAN" "$to/usr/bin" "$to/usr/lib/cutrace" "$doc" "$to/usr/share/zsh/vendor-completions" \
    "$to/usr/share/lintian/overrides"
install -m 755 "$STAGE/bin/cutrace" "$STAGE/bin/cutrace-report" "$to/usr/bin/"
install -m 644 "$STAGE/lib/libcutrace.so" "$to/usr/lib/cutrace/" # a library to preload: not for ldconfig
cp -r "$from/man" "$from/bash-completion" "$to/usr/share/"
install -m 644 "$from/zsh/site-functions/_cutrace" "$to/usr/share/zsh/vendor-completions/"
install -m 644 "$from/doc/cutrace/FORMAT.md" "$doc/"
install -m 644 scripts/package/GUIDE.md "$doc/README.md"
install -m 644 scripts/package/lintian-overrides "$to/usr/share/lintian/overrides/cutrace"
install -m 644 CHANGELOG.md "$doc/NEWS.md"
gzip -9n "$doc/NEWS.md" "$doc/FORMAT.md"
find "$to/usr/share/man" -type f -exec gzip -9n {} +

{
    cat <<TEXT
cutrace $VERSION
Copyright: the authors of cutrace
License: Apache-2.0; the whole text is /usr/share/common-licenses/Apache-2.0

TEXT
    cat "$from/doc/cutrace/licenses/README"
    for file in "$from"/doc/cutrace/licenses/*; do
        case ${file##*/} in
        README) ;;
        LGPL-3 | GPL-3) printf '\n%s: /usr/share/common-licenses/%s\n' "${file##*/}" "${file##*/}" ;;
        *)
            printf '\n==== %s\n\n' "${file##*/}"
            cat "$file"
            ;;
        esac
    done
} >"$doc/copyright"
gzip -9n >"$doc/changelog.gz" <<TEXT
cutrace ($VERSION) unstable; urgency=medium

  * What has changed for users is in NEWS.md.gz in this folder.

 -- $PACKAGER  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
TEXT

glibc=$(readelf -W -V "$STAGE/bin/cutrace" "$STAGE/bin/cutrace-report" "$STAGE/lib/libcutrace.so" |
    sed -n 's/.*Name: GLIBC_\([0-9.]*\) .*/\1/p' | sort -V | tail -n 1)

chmod -R u=rwX,go=rX "$to"
cat >"$to/DEBIAN/control" <<TEXT
Package: cutrace
Version: $VERSION
Architecture: $arch
Maintainer: $PACKAGER
Installed-Size: $(du -k -s --apparent-size "$to/usr" | cut -f 1)
Depends: libc6 (>= ${glibc:?no version of glibc})
Suggests: curl, libdebuginfod1
Section: devel
Priority: optional
Description: find out what filled the GPU
 Records every call of a CUDA program that allocates, maps, shares or frees
 GPU memory, with the stack of each, and shows which allocation crossed the
 capacity of the device, what was live then, and where it came from.
 .
 cutrace runs a program and records it; cutrace-report reads the traces,
 without a GPU and without network.
TEXT
(cd "$to" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$to/DEBIAN/md5sums"
mkdir -p "$RELEASE"
export SOURCE_DATE_EPOCH
find "$to" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$to" "$RELEASE/cutrace_${VERSION}_$arch.deb" >/dev/null
echo "$RELEASE/cutrace_${VERSION}_$arch.deb"
