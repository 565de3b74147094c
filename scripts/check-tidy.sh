#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy over the C sources, each with the include paths of its folder; the product's also with the warnings of the
# Makefile, so that CI needs no build by clang. Arguments: files (default all).
set -eu
cd "$(dirname "$0")/.."

CUDA_INC=${CUDA_INC:-$(make -s show-CUDA_INC)}
UNWIND_CFLAGS=$(make -s show-UNWIND_CFLAGS)
GENERATED=$(make -s show-GENERATED)
WARNINGS=$(make -s WERROR=0 show-WARNINGS)
# The analyzer gives a function up after so many states: before a release after those of its shallow mode, else after what takes
# 40 % of that time.
limit="-Xclang -analyzer-config -Xclang max-nodes=$([ -n "${CUTRACE_FULL:-}" ] && echo 75000 || echo 20000)"
export CUDA_INC UNWIND_CFLAGS GENERATED WARNINGS limit

list_files() {
    if [ $# = 0 ]; then find preload tools tests -name '*.c' | LC_ALL=C sort; else printf '%s\n' "$@"; fi
}
# The analyzer, which takes five times as long as all else, sees the recorder and what reads untrusted input; the rest in
# `make check-long`. (One file at a time beside suites.)
# shellcheck disable=SC2016 # expanded by the inner shell
list_files "$@" | xargs -P "${TIDY_JOBS:-$(nproc)}" -n 1 sh -c '
    checks=
    case $1 in
    tools/*) flags="$WARNINGS -D_GNU_SOURCE -Iinclude -Itools -Itools/report" ;;
    preload/*) flags="$WARNINGS -Iinclude -Ipreload" ;;
    tests/stacks/capture/*) flags="-Wno-macro-redefined -D_GNU_SOURCE -DROOM=64 -Iinclude -Ipreload" ;;
    *) flags="-Wno-macro-redefined -D_GNU_SOURCE -Iinclude -Ipreload -Itools -Itools/report -Itests/sim" ;;
    esac
    case $1${CUTRACE_FULL:+ whole} in
    *" whole" | preload/* | tools/watch/http* | tools/report/read/* | tools/report/text/* | tools/report/snapshot/*) ;;
    *) checks="--checks=-clang-analyzer-*" ;;
    esac
    out=$(clang-tidy --quiet ${checks:+"$checks"} "$1" -- -std=gnu11 $limit $flags -isystem "$CUDA_INC" -I"$GENERATED" $UNWIND_CFLAGS 2>&1) || {
        printf "%s\n" "$out" | grep -A 2 -E " (error|warning): " >&2
        exit 1
    }' sh
