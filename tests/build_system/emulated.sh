#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The main job of a cross build, under the emulator: the library in a foreign program, its trace, and the report: the foreign one,
# or, where only check-long builds that, this machine's.
# Run by `make CROSS=... check`, where the ordinary suites that start programs themselves cannot run.
set -u

build=${CUTRACE_BUILD:?run by make check}
read -ra emulator <<<"${CUTRACE_RUN:?only for a cross build}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# (The emulator walks the pages of the address space at each look at the mappings: 60 s of a processor with the whole of it.)
demo=("${emulator[@]}" -E "LD_LIBRARY_PATH=$build/sim" -E SIM_MEM_MB=2048 -E SIM_SPACE_GB=16)
count=0

check() { # NAME PROBLEM-TEXT (empty: passed)
    count=$((count + 1))
    if [ -z "$2" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        printf '%s\n' "$2" | head -n 40 | sed 's/^/#   /'
    fi
}

echo "1..6"
"${demo[@]}" "$build/tests/demo/demo" >"$work/plain" 2>&1
plain=$?
"${demo[@]}" -E "LD_PRELOAD=$build/libcutrace.so" -E "CUTRACE_OUTPUT=$work/trace.zst" -E CUTRACE_QUIET=1 \
    "$build/tests/demo/demo" >"$work/traced" 2>&1
traced=$?
check "the program runs out of memory without us" "$([ "$plain" = 3 ] || cat "$work/plain")"
check "with us it ends in the same way" "$([ "$traced" = "$plain" ] || echo "exit status $traced, not $plain")"
check "and says the same" "$(diff "$work/plain" "$work/traced")"
check "the trace is a valid zstd file" "$(zstd -tq "$work/trace.zst" 2>&1)"
if [ -x "$build/cutrace-report" ]; then
    report=$("${emulator[@]}" "$build/cutrace-report" "$work/trace.zst" 2>&1)
else
    report=$("${build%/*}/cutrace-report" "$work/trace.zst" 2>&1)
fi
check "the report names the failed allocation" "$([[ $report == *"OUT OF MEMORY on GPU 0: "* ]] || echo "$report")"
check "and the call sites by name" "$([[ $report == *load_weights* ]] || echo "$report")"
