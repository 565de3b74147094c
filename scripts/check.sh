#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 or Ubuntu 22.04 to the result of all tests: sets up, builds, runs `make check`.
# The last line is the summary: "N passed, N failed[, N skipped]".
#
# With CI=true also: a clang build, the sanitizers, the aarch64 build and its unit tests, builds against
# CUDA 12's and the newest CUDA headers, and `make lint`; warnings are errors. Nothing is left out silently, but
# only what did not pass has lines of its own there. A suite that fails beside others is run once more, alone, and
# that counts. What failed is said again before the summary.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # it is documented as `sh scripts/check.sh`
set -u
cd "$(dirname "$0")/.." || exit 2

ci=
[ "${CI:-}" = true ] && ci=1
jobs=$(nproc)
passed=0 failed=0 skipped=0
log=$(mktemp)
recap=$(mktemp)
trap 'rm -f "$log" "$recap"' EXIT

announce() {
    printf '\n==== %s\n' "$*"
}
result() { # STATUS NAME: one result of its own
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
        echo "ok - $2"
    else
        failed=$((failed + 1))
        echo "not ok - $2" | tee -a "$recap"
    fi
}
# A log keeps those who look for a failure busy: of what passed, only the sums.
show() {
    if [ -n "$ci" ]; then grep -v --line-buffered '^ok '; else cat; fi
}
# The failed results in the output of suites, each with the first lines of what it says of itself.
remember() { # NAME
    awk -v step="$1" '
        /^again/ { print step ": " $0; said = 0; next }
        /^not ok/ { print step ": " $0; said = 0; next }
        /^  [|] not ok/ { print "    " substr($0, 5); said = 1; next }
        /^  [|] #/ { if (said && said++ < 8) print "    " substr($0, 5); next }
        { said = 0 }' "$log" >>"$recap"
}
# Runs a command that is one result.
step() { # NAME COMMAND...
    local name=$1 start=$SECONDS status
    shift
    announce "$name: $*"
    "$@" >"$log" 2>&1
    status=$?
    [ "$status" = 0 ] || cat "$log"
    result "$status" "$name ($((SECONDS - start)) s)"
    [ "$status" = 0 ] || tail -n 8 "$log" | sed 's/^/    /' >>"$recap"
}
# Runs a `make check`, whose last line counts; one without it is a failure named after the step.
suites() { # NAME COMMAND...
    local name=$1 start=$SECONDS last p f s
    shift
    announce "$name: $*"
    "$@" 2>&1 | tee "$log" | show
    remember "$name"
    last=$(tail -n 1 "$log")
    if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
        p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[4]:-0}
    elif last=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1) && [ -n "$last" ]; then
        # make adds its own line about the failed target
        read -r p _ f _ s _ <<<"$last"
        s=${s:-0}
    else
        result 1 "$name: no summary"
        return
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if [ $((p + f)) = 0 ]; then result 1 "$name: no test ran"; fi
    echo "     $name took $((SECONDS - start)) s"
}
# Runs a command that prints TAP.
tap() { # NAME COMMAND...
    local name=$1 start=$SECONDS status
    shift
    announce "$name: $*"
    "$@" 2>&1 | tee "$log" | show
    status=${PIPESTATUS[0]}
    grep -A 8 '^not ok' "$log" >>"$recap"
    local bad skip good
    bad=$(grep -c '^not ok' "$log")
    skip=$(grep -ciE '^ok .*# *skip' "$log")
    good=$(($(grep -c '^ok' "$log") - skip))
    passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + skip))
    if [ "$status" != 0 ] && [ "$bad" = 0 ]; then result 1 "$name"; fi
    if [ $((good + bad + skip)) = 0 ]; then result 1 "$name: no result"; fi
    echo "     $name took $((SECONDS - start)) s"
}

announce "set-up"
if ! sh scripts/setup.sh ${ci:+all}; then
    echo "not ok - set-up"
    echo "0 passed, 1 failed"
    exit 1
fi

if [ -z "$ci" ]; then
    suites "tests" make -s -j"$jobs" check
else
    export WERROR=1 CUTRACE_AGAIN=1
    suites "tests, gcc" make -s -j"$jobs" check
    step "build with clang" make -s -j"$jobs" BUILD=build/clang CC=clang build-tests
    suites "tests, address and undefined-behaviour sanitizers" make -s -j"$jobs" SAN=address,undefined check
    suites "tests, thread sanitizer" make -s -j"$jobs" SAN=thread check
    suites "tests, aarch64 under emulation" make -s -j"$jobs" CROSS=aarch64-linux-gnu check
    for version in 12 newest; do
        if include=$(scripts/fetch-cuda-headers.sh "$version" build/deps); then
            step "build against CUDA $version headers" \
                make -s -j"$jobs" "BUILD=build/cuda-$version" "CUDA_INC=$include" build-cuda
        else
            result 1 "build against CUDA $version headers: they cannot be fetched"
        fi
    done
    tap "lint" scripts/lint.sh
fi

if [ -s "$recap" ]; then
    announce "what failed"
    cat "$recap"
fi
echo
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
[ "$failed" = 0 ]
