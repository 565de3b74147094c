#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Collects the licences of what is linked into the packages' files, and which versions and sources these are.
#
# Usage: collect-licenses.sh STAGE LIBUNWIND     result: STAGE/share/doc/cutrace/licenses
set -eu

doc=$1/share/doc/cutrace
to=$doc/licenses
unwind=$2
if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "collect-licenses: packages are made on Debian or Ubuntu, whose package manager knows what was linked in" >&2
    exit 1
fi
mkdir -p "$to"

# The archive's package, what is linked from it, into which file.
linked() {
    cat <<'LIST'
libzstd-dev     zstd        libcutrace.so, cutrace-report
libsqlite3-dev  SQLite      cutrace-report
zlib1g-dev      zlib        cutrace-report
libdw-dev       elfutils    cutrace-report
liblzma-dev     liblzma     cutrace-report
libbz2-dev      bzip2       cutrace-report
libiberty-dev   libiberty   cutrace-report
LIST
}

{
    echo "What is linked into these files, beside cutrace (Apache-2.0, file LICENSE). Sources: the packages named here, of"
    echo "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release). Each file of this folder is the licence of one of them."
    echo
    linked | while read -r package name files; do
        # shellcheck disable=SC2016 # dpkg-query's variables
        source=$(dpkg-query -W -f '${source:Package} ${source:Version}' "$package" 2>/dev/null) || {
            echo "collect-licenses: $package is not installed: sh scripts/setup.sh all" >&2
            exit 1
        }
        echo "$name: $source; in $files"
        cp "/usr/share/doc/$package/copyright" "$to/$name"
    done
    # (With the compiler's, whose version is not that of a package named above.)
    gcc=$(dpkg-query -S "$(${CC:-cc} -print-libgcc-file-name)" 2>/dev/null | sed 's/[:, ].*//') || gcc=
    # shellcheck disable=SC2016 # dpkg-query's variables
    echo "libgcc: $(dpkg-query -W -f '${source:Package} ${source:Version}' "$gcc"); in libcutrace.so, cutrace-report, cutrace, under the GCC Runtime Library Exception"
    cp "/usr/share/doc/$gcc/copyright" "$to/libgcc"
    # (What build-libunwind.sh built: the tree's pins name the version.)
    echo "libunwind: libunwind $(sed -n 's/^Version: *//p' "$unwind/lib/pkgconfig/libunwind.pc"); in libcutrace.so, with the patch of the same version in cutrace's scripts/"
    cp "$unwind/COPYING" "$to/libunwind"
    echo "uPlot: in the page that cutrace-report html writes; its licence stands in each page"
    echo
    echo "elfutils is used under the GNU Lesser General Public License, version 3 or later (files LGPL-3, GPL-3). To link"
    echo "cutrace-report with another version of it, build cutrace from its source with that version's libdw.a installed."
} >"$to/README"
cp /usr/share/common-licenses/LGPL-3 /usr/share/common-licenses/GPL-3 "$to/"
chmod 644 "$to"/*
cp CHANGELOG.md "$doc/"
chmod 644 "$doc/CHANGELOG.md"
