#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures the cost of an event after the rings: order, state, columns, compressor, file.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${CUTRACE_BUILD:-$root/build}
unset CUTRACE_BUILD # not a variable of the recorder, which is in drain_cost and would say so
folder=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$folder"' EXIT
for stream in peer iid periodic; do
    CUTRACE_OUTPUT=$folder/$stream.zst "$build/tests/bench/drain_cost" "$stream" "${BENCH_EVENTS:-4000000}" 2
    "$build/cutrace-report" check "$folder/$stream.zst" >/dev/null
done
