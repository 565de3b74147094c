#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures `cutrace-report export --format=torch` of all events of synthetic traces: time, memory and size.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${CUTRACE_BUILD:-$root/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for what in "1000000 5000 blocks" "1000000 100000 blocks" "10000000 5000 blocks" "1000000 5000 calls"; do
    # shellcheck disable=SC2086 # words
    set -- $what
    if [ "$3" = blocks ]; then
        "$build/tests/bench/make_trace" "$1" "$2" "$work/t.zst" blocks
    else
        "$build/tests/bench/make_trace" "$1" "$2" "$work/t.zst"
    fi
    for window in all 100000; do
        python3 - "$build/cutrace-report" "$work" "$window" "$@" <<'END'
import os
import resource
import subprocess
import sys
import time
program, work, window, events, live, kind = sys.argv[1:]
path = os.path.join(work, "out.pickle")
begin = time.monotonic()
subprocess.run([program, "export", "--top=" + window, "--force", "-o", path, os.path.join(work, "t.zst")],
               stdout=subprocess.DEVNULL, check=True)
wall, used = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
print("export %9s of %9s events (%s), %7s live: %5.2f s (%5.2f s of processor), %4d MiB of memory, %5d MiB written" %
      (window, events, kind, live, wall, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024, os.path.getsize(path) >> 20))
END
    done
done
