#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures Python stack walks in every installed interpreter, against PyGILState_Ensure and the C API.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${CUTRACE_BUILD:-$root/build}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$root/scripts/fetch-pythons.sh" --list "$root/build/deps" | while read -r line; do
    line=$(printf '%s\n' "$line" | cut -f 3-)
    IFS='	'
    # shellcheck disable=SC2086 # words behind tabs
    CUTRACE_QUIET=1 CUTRACE_OUTPUT="$folder/%p.zst" $line "$root/tests/bench/python_walk.py" "$build/tests/bench/libpython_walk.so"
done
