#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures cutrace-report on synthetic traces of 10 million events: user time, events a second and memory.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${CUTRACE_BUILD:-$root/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
events=${BENCH_EVENTS:-10000000}
for live in 5000 1000000; do
    "$build/tests/bench/make_trace" "$events" "$live" "$work/t.zst"
    for view in check summary top; do
        python3 - "$build/cutrace-report" "$view" "$work/t.zst" "$events" "$live" <<'END'
import resource
import subprocess
import sys
program, view, path, events, live = sys.argv[1:]
subprocess.run([program, view, path], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = used.ru_utime + used.ru_stime
print("report %-8s %9s live: %5.2f s of processor, %5.1f M events/s, %4d MiB" %
      (view, live, seconds, int(events) / seconds / 1e6, used.ru_maxrss // 1024))
END
    done
done
