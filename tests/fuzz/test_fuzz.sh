#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mutated traces and journals, the same in every run: the report ends without a crash, and in a SAN= build without a
# sanitizer finding.
set -u
root=${CUTRACE_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${CUTRACE_BUILD:-$root/build}
runs=${CT_FUZZ_RUNS:-$([ -n "${CUTRACE_FULL:-}" ] && echo 500000 || echo 5000)}
last=$(mktemp)
failed=0

fuzz() { # NUMBER WHAT SEED-FILE...
    number=$1 what=$2
    shift 2
    CT_FUZZ_LAST=$last "$build/tests/fuzz/fuzz_reader" "$runs" "$@" >"$last.out" 2>&1
    status=$?
    if [ $status = 0 ]; then
        echo "ok $number - $runs mutated $what"
    else
        echo "not ok $number - $runs mutated $what: exit $status in run $(cat "$last")"
        tail -n 40 "$last.out" | sed 's/^/# /'
        failed=1
    fi
}

echo 1..3
fuzz 1 traces "$root"/tests/report/golden/traces/*.zst
PYTHONDONTWRITEBYTECODE=1 python3 "$root/tests/lib/mkjournal.py" "$last.journal"
fuzz 2 journals "$last.journal"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/tests/lib python3 - "$root/tests/torch/export" "$last.pool" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import pool
for seed in range(4):
    process = pool.Process(seed, capacity=64 << 20, devices=1 + seed % 2, expandable=seed > 1)
    process.work(150)
    for name, data in (("work", process.done()), ("chaos", pool.chaos(seed, 150))):
        with open("%s.%s%d" % (sys.argv[2], name, seed), "wb") as f:
            f.write(data)
END
fuzz 3 "traces with PyTorch's blocks" "$last".pool.*
rm -f "$last" "$last.out" "$last.journal" "$last".pool.*
[ $failed = 0 ]
