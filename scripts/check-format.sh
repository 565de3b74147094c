#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that every C source has the form of .clang-format; --fix rewrites those that have not.
set -eu
cd "$(dirname "$0")/.."

case ${1:-} in
--fix) set -- -i ;;
*) set -- --dry-run -Werror ;;
esac
find include preload tools tests -name '*.[ch]' -print0 | xargs -0 clang-format "$@"
