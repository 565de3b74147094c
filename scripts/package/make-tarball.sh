#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the release tarball: one folder that works wherever it is unpacked. Run by `make tarball`.
set -eu

name=cutrace-$VERSION-linux-$ARCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -a "$STAGE" "$work/$name"
cp -p scripts/package/GUIDE.md "$work/$name/README.md"
cp -p LICENSE "$work/$name/"
chmod -R u=rwX,go=rX "$work/$name"
mkdir -p "$RELEASE"
tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$name" |
    gzip -9n >"$RELEASE/$name.tar.gz"
(cd "$RELEASE" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$RELEASE/$name.tar.gz"
