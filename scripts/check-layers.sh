#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks which folder includes which: data flows from preload through the trace to tools, and the contract
# between them is include/cutrace alone. The compiler is asked, so that no spelling of a path escapes.
set -eu
cd "$(dirname "$0")/.."
CUDA_INC=${CUDA_INC:-$(make -s show-CUDA_INC)}
UNWIND_CFLAGS=$(make -s show-UNWIND_CFLAGS)
GENERATED=$(make -s show-GENERATED)
status=0

refuse() { # RULE OFFENDERS
    [ -z "$2" ] && return
    printf '%s:\n%s\n' "$1" "$2" >&2
    status=1
}

# "FILE INCLUDED" for every header that a folder's sources and headers reach.
reached_from() {
    find "$@" -name '*.[chS]' 2>/dev/null | LC_ALL=C sort | while read -r file; do
        # shellcheck disable=SC2086 # flags
        gcc -M -std=gnu11 -x c -Iinclude -Ipreload -Itools -Itools/report -Itests/sim -I"$GENERATED" -isystem "$CUDA_INC" \
            $UNWIND_CFLAGS -MG "$file" 2>/dev/null | sed 's/\\$//; s/^[^:]*: *//' | tr -s ' ' '\n' |
            sed "/^$/d; s|^|$file |"
    done
}
# Paths as they stand in the repository, whatever the -I flag that found them.
normal() {
    sed -e 's|/\./|/|g' -e ':again' -e 's|[^/ ]*/\.\./||' -e 't again'
}

preload=$(reached_from preload | normal)
tools=$(reached_from tools | normal)
contract=$(reached_from include | normal)
refuse "preload includes tools or tests" "$(printf '%s\n' "$preload" | grep -E ' (tools|tests)/' || :)"
refuse "tools includes preload or tests" "$(printf '%s\n' "$tools" | grep -E ' (preload|tests)/' || :)"
refuse "tools includes a CUDA header" \
    "$(printf '%s\n' "$tools" | grep -E '/(cuda|cudaTypedefs|cuda_runtime_api|driver_types)\.h$' || :)"
refuse "the contract includes its users" \
    "$(printf '%s\n' "$contract" | grep -E ' (preload|tools|tests)/' || :)"

# CUDA types stop at the recorder's interface.
recording=$(make -s show-PRELOAD_RECORDING)
refuse "preload/module.mk has no PRELOAD_RECORDING" "$([ -n "$recording" ] || echo 'it is empty')"
for name in $recording; do
    refuse "the recording side knows a CUDA type" "$(printf '%s\n' "$preload" |
        grep -E "^$name .*/(cuda|cudaTypedefs|cuda_runtime_api|driver_types)\.h$" || :)"
    [ -e "$name" ] || refuse "PRELOAD_RECORDING names no file" "$name"
done
exit $status
