#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that every C source has the form of .clang-format, with comments of at most 100 columns, which it does not wrap;
# --fix rewrites those that have not.
set -eu
cd "$(dirname "$0")/.."

case ${1:-} in
--fix) set -- -i ;;
*) set -- --dry-run -Werror ;;
esac
find include preload tools tests -name '*.[ch]' -print0 | xargs -0 clang-format "$@"

# (A string may be longer: it is not cut.)
# shellcheck disable=SC2016 # awk's
find include preload tools tests -name '*.[ch]' -print0 | xargs -0 awk '
    length($0) > 100 && /^[^"]*\/\// { print FILENAME ":" FNR ": a comment goes beyond column 100"; failed = 1 }
    END { exit failed }'
