#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test suite, several at a time, and ends with one line: "N passed, N failed[, N skipped]".
#
# Usage: run-suites.sh [SUITE...]
#   A suite is a folder of tests/ (unit, report, stacks/python, ...) or one file; without any, all run.
#   Environment: CUTRACE_BUILD, CUTRACE_ROOT (set by make check), CUTRACE_FULL=1, JOBS,
#   CUTRACE_HANG=600 seconds for one suite (a guard against hangs, not a measure of speed),
#   CUTRACE_AGAIN=1 runs a suite that failed once more when all others have ended, and says so: what fails only
#   on a machine that is busy with other suites does not count, what fails again does,
#   CUTRACE_RUN a command before compiled tests (the emulator of a cross build).
#
# A suite is a program that prints TAP: build/tests/unit/*, *.bats, test_*.py and test_*.sh in a
# folder of tests/ or one below it.
# One that prints no result, no plan (1..N), more or fewer results than its plan, or fails without a failed result counts as one
# failure named after it.
set -u

root=${CUTRACE_ROOT:-$(cd "$(dirname "$0")/.." && pwd)}
build=${CUTRACE_BUILD:-$root/build}
hang=${CUTRACE_HANG:-$([ -n "${CUTRACE_FULL:-}" ] && echo 14400 || echo 600)}
jobs=${JOBS:-$(nproc)}
export CUTRACE_ROOT=$root CUTRACE_BUILD=$build CMOCKA_MESSAGE_OUTPUT=TAP PYTHONDONTWRITEBYTECODE=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=0} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

# The compiled programs are short, so they come last and fill up what the long ones leave of the processors.
list_suites() { # [FOLDER]
    local folder=${1:-*} file
    # shellcheck disable=SC2086,SC2231 # the folder may be a pattern
    for file in "$root"/tests/$folder/{,*/}*.bats "$root"/tests/$folder/{,*/}test_*.py "$root"/tests/$folder/{,*/}test_*.sh; do
        [ -f "$file" ] || continue
        case $file in
        *.bats) echo "$file" ;;
        *) if [ -x "$file" ]; then echo "$file"; else echo "run-suites: $file is not executable" >&2; fi ;;
        esac
    done
    [ "$folder" = '*' ] || [ "$folder" = unit ] || return 0
    for file in "$build"/tests/unit/*; do
        case $file in *.o | *.d | *.so | *.gcno | *.gcda) continue ;; esac
        [ -f "$file" ] && [ -x "$file" ] && echo "$file"
    done
    return 0
}

name_of() {
    case $1 in
    "$build"/tests/*) echo "${1#"$build"/tests/}" ;;
    "$root"/tests/*) echo "${1#"$root"/tests/}" ;;
    *) echo "$1" ;;
    esac
}

# Runs one suite; leaves counts and its own report under $results.
run_one() {
    local suite=$1 name tag status plan ok bad skipped start seconds extra=
    name=$(name_of "$suite")
    tag=${name//\//_}
    local out=$results/$tag.out err=$results/$tag.err report=$results/$tag.report
    # Under an emulator a suite that starts programs itself must know how (CUTRACE_RUN).
    if [[ ${CUTRACE_RUN:-} == qemu-* && $suite != "$build"/* ]] && ! grep -q CUTRACE_RUN "$suite" &&
        [ "$name" != build_system/test_library.sh ]; then
        echo "0 0 1" >"$results/$tag.count"
        echo "skip   $name: it does not run its programs under an emulator" >"$report"
        flock "$results/lock" cat "$report"
        return
    fi
    mkdir -p "$results/$tag.tmp"
    local -a command=("$suite")
    case $suite in
    *.bats) command=(bats --tap "$suite") ;;
    *.py) command=(python3 "$suite") ;;
    "$build"/*) [ -n "${CUTRACE_RUN:-}" ] && read -ra command <<<"$CUTRACE_RUN $suite" ;;
    esac
    start=$(date +%s%N)
    {
        (cd "$results/$tag.tmp" && TMPDIR=$results/$tag.tmp exec timeout -k 10 "$hang" "${command[@]}") \
            >"$out" 2>"$err" </dev/null
        status=$?
    } 2>/dev/null
    seconds=$((($(date +%s%N) - start) / 100000000))
    rm -rf "$results/$tag.tmp"

    # Counted as text of their own lines; a plan "1..0 # SKIP reason" is one skipped test.
    read -r plan ok bad skipped < <(awk '
        /^1\.\.0[ \t]*(#|$)/ { skipped++; next }
        /^1\.\.[0-9]+/ { split($1, p, /\.\./); plan += p[2]; next }
        /^not ok [0-9]+ # *SKIP/ { skipped++; next } # as cmocka 1.1.5 writes it
        /^not ok/ { bad++; next }
        /^ok/ { if (tolower($0) ~ /# *skip/) skipped++; else ok++ }
        END { print plan + 0, ok + 0, bad + 0, skipped + 0 }' "$out")
    if [ "$seconds" -ge "${hang}0" ]; then
        extra="stopped by the hang guard after $hang s"
    elif [ "$((ok + bad + skipped))" = 0 ]; then
        extra="no TAP result (exit status $status)"
    elif [ "$plan" != "$((ok + bad + skipped))" ] && ! grep -q '^1\.\.0' "$out"; then
        extra="$((ok + bad + skipped)) results of $plan planned (exit status $status)"
    elif [ "$status" != 0 ] && [ "$bad" = 0 ]; then
        extra="exit status $status without a failed test"
    fi
    [ -n "$extra" ] && bad=$((bad + 1))
    echo "$ok $bad $skipped" >"$results/$tag.count"
    {
        printf '%s %s: %d passed, %d failed, %d skipped (%d.%d s)\n' \
            "$([ "$bad" = 0 ] && echo 'ok    ' || echo 'not ok')" "$name" "$ok" "$bad" "$skipped" \
            $((seconds / 10)) $((seconds % 10))
        grep -iE '^((not )?ok .*# *skip|1\.\.0)' "$out" | sed 's/^/       /'
        if [ "$bad" != 0 ]; then
            [ -n "$extra" ] && echo "       $name: $extra"
            echo "  ---- output of $name"
            sed 's/^/  | /' "$out"
            echo "  ---- its standard error"
            sed 's/^/  | /' "$err"
            echo "  ----"
        fi
    } >"$report"
    flock "$results/lock" cat "$report"
}

if [ "${1:-}" = --one ]; then
    results=$2
    run_one "$3"
    exit 0
fi

results=$(mktemp -d "${TMPDIR:-/tmp}/cutrace-tests.XXXXXX") || exit 2
trap 'rm -rf "$results"' EXIT
if [ $# = 0 ]; then
    list_suites
else
    for word in "$@"; do
        if [ -f "$word" ]; then realpath "$word"; else list_suites "$word"; fi
    done
fi >"$results/suites" 2>"$results/warnings"
cat "$results/warnings" >&2

xargs -r -d '\n' -n 1 -P "$jobs" "$0" --one "$results" <"$results/suites"

# Alone, and once. Its first report stays in the output.
again=0
while [ -n "${CUTRACE_AGAIN:-}" ] && read -r suite <&3; do
    name=$(name_of "$suite")
    count=$results/${name//\//_}.count
    if [ -f "$count" ] && read -r _ bad _ <"$count" && [ "$bad" != 0 ]; then
        again=$((again + 1))
        echo "again  $name: it failed, and is run alone"
        "$0" --one "$results" "$suite" </dev/null
    fi
done 3<"$results/suites"
[ "$again" = 0 ] || echo "again  $again suite$([ "$again" = 1 ] || echo s) failed beside others; what counts is the second run"

# A suite whose runner died itself has no count: it is a failure too.
passed=0 failed=0 skipped=0
while read -r suite; do
    name=$(name_of "$suite")
    if read -r ok bad skip <"$results/${name//\//_}.count"; then
        passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    else
        echo "not ok $name: its result is missing"
        failed=$((failed + 1))
    fi
done <"$results/suites"
failed=$((failed + $(wc -l <"$results/warnings")))
if [ ! -s "$results/suites" ]; then
    echo "not ok no suite found: ${*:-all}"
    failed=$((failed + 1))
fi
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
[ "$failed" = 0 ]
