#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mutated traces, journals, texts and snapshots, by the seed: the report ends without a crash, and in a SAN= build without a
# sanitizer finding. Of what is slow there are fewer runs; a quarter of them in a build without sanitizers, five times as many with
# CUTRACE_FULL=1. CT_FUZZ_RUNS says another number for all.
set -u
root=${CUTRACE_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${CUTRACE_BUILD:-$root/build}
quarters=1
[ -z "${SAN:-}" ] || quarters=4
[ -z "${CUTRACE_FULL:-}" ] || quarters=20
last=$(mktemp)
failed=0

fuzz() { # NUMBER RUNS WHAT PROGRAM SEED-FILE...
    number=$1 runs=${CT_FUZZ_RUNS:-$(($2 * quarters / 4))} what=$3 program=$4
    shift 4
    CT_FUZZ_LAST=$last "$build/tests/fuzz/$program" "$runs" "$@" >"$last.out" 2>&1
    status=$?
    if [ $status = 0 ]; then
        echo "ok $number - $runs mutated $what"
    else
        echo "not ok $number - $runs mutated $what: exit $status in run $(cat "$last"), seed ${CUTRACE_SEED:-0}"
        tail -n 40 "$last.out" | sed 's/^/# /'
        failed=1
    fi
}

echo 1..7
fuzz 1 800 traces fuzz_reader "$root"/tests/report/golden/traces/*.zst
PYTHONDONTWRITEBYTECODE=1 python3 "$root/tests/lib/mkjournal.py" "$last.journal"
fuzz 2 200 journals fuzz_reader "$last.journal"
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
fuzz 3 300 "traces with PyTorch's blocks" fuzz_reader "$last".pool.*
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/tests/report/texts python3 - "$last" <<'END'
import sys
import texts
for i, (_, _, _, data) in enumerate(texts.TEXTS[::2]):
    with open("%s.text.%d" % (sys.argv[1], i), "wb") as f:
        f.write(data)
END
fuzz 4 5000 texts fuzz_text "$last".text.* "$root"/tests/report/vllm/leak/log.txt
fuzz 5 5000 "snapshots of PyTorch's" fuzz_snapshot "$root"/tests/report/snapshots/*/*.pickle
python3 - "$root/tests/report/golden/traces" "$last.zip" <<'END'
import sys
import zipfile
with zipfile.ZipFile(sys.argv[2], "w") as z:
    for i, name in enumerate(("mixed", "refused", "pools"), 1):
        z.write("%s/%s.zst" % (sys.argv[1], name), "trace-%d.zst" % i)
    z.writestr("MANIFEST.json", "{}")
END
fuzz 6 5000 "zip files" fuzz_zip "$last.zip"
mkdir "$last.seek"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/tests/lib python3 - "$last.seek" <<'END'
import glob
import os
import sys
import add_digests
import checkpoint_program
from mktrace import Trace, packed_columns
Trace.version, Trace.columns = 3, staticmethod(packed_columns)  # as read_trace reads
checkpoint_program.main(sys.argv[1])
for path in glob.glob(os.path.join(sys.argv[1], "seek-*.zst")):
    data = add_digests.add(path, True)
    with open(path.replace("seek-", "noted-"), "wb") as f:
        f.write(data)
END
fuzz 7 900 "traces with digests: no answer of --quick is contradicted by all events" fuzz_quick "$last.seek"/noted-*.zst
rm -rf "$last.seek"
rm -f "$last" "$last.zip" "$last.out" "$last.journal" "$last".pool.* "$last".text.*
[ $failed = 0 ]
