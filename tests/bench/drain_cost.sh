#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures the cost of an event after the rings: order, state, columns, compressor, file; and its bytes there.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${CUTRACE_BUILD:-$root/build}
events=${BENCH_EVENTS:-4000000}
unset CUTRACE_BUILD # not a variable of the recorder, which is in drain_cost and would say so
folder=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$folder"' EXIT
for stream in peer iid periodic; do
    CUTRACE_OUTPUT=$folder/$stream.zst "$build/tests/bench/drain_cost" "$stream" "$events" 2
    "$build/cutrace-report" info "$folder/$stream.zst" >/dev/null
    echo "$(stat -c %s "$folder/$stream.zst") $events" | awk "{ printf \"       %.2f bytes an event in the trace\\n\", \$1 / \$2 }"
done
