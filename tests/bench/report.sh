#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures cutrace-report on synthetic traces of 10 million events, with the driver's and PyTorch's blocks: time, events
# per second and memory.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${CUTRACE_BUILD:-$root/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
events=${BENCH_EVENTS:-10000000}
for what in 5000 1000000 "5000 blocks" "1000000 blocks"; do
    live=${what% blocks}
    # shellcheck disable=SC2046 # a word or none
    "$build/tests/bench/make_trace" "$events" "$live" "$work/t.zst" $([ "$live" = "$what" ] || echo blocks)
    for view in check summary $([ "$live" = "$what" ] && echo top || echo frag); do
        python3 - "$build/cutrace-report" "$view" "$work/t.zst" "$events" "$what" <<'END'
import resource
import subprocess
import sys
import time
program, view, path, events, live = sys.argv[1:]
start = time.monotonic()
subprocess.run([program, view, path], stdout=subprocess.DEVNULL, check=True)
wall = time.monotonic() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = used.ru_utime + used.ru_stime
print("report %-8s %14s live: %5.2f s (%5.2f s of processor), %5.1f M events/s, %4d MiB" %
      (view, live, wall, seconds, int(events) / wall / 1e6, used.ru_maxrss // 1024))
END
    done
done
