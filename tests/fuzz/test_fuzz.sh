#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mutated traces, always the same ones: the report ends without a crash (and, in a build with SAN=, without a finding).
set -u
root=${CUTRACE_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${CUTRACE_BUILD:-$root/build}
runs=${CT_FUZZ_RUNS:-$([ -n "${CUTRACE_FULL:-}" ] && echo 500000 || echo 5000)}
last=$(mktemp)
echo 1..1
CT_FUZZ_LAST=$last "$build/tests/fuzz/fuzz_reader" "$runs" "$root"/tests/golden/expected/*.zst >"$last.out" 2>&1
status=$?
if [ $status = 0 ]; then
    echo "ok 1 - $runs mutated traces"
else
    echo "not ok 1 - $runs mutated traces: exit $status in run $(cat "$last")"
    sed 's/^/# /' "$last.out"
fi
rm -f "$last" "$last.out"
[ $status = 0 ]
