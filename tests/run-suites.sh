#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs test suites, several at a time, the longest first, and ends with one line: "N passed, N failed[, N skipped]".
#
# Usage: run-suites.sh [SUITE...]                    runs them
#        run-suites.sh --plan FOLDER LEG [SUITE...]  notes them, with the present environment, to be run later
#        run-suites.sh --run FOLDER                  runs what was noted, all legs in one order
#        run-suites.sh --list [SUITE...]             prints their names
#   SUITE is a file (tests/unit/test_recorder.py), a folder of tests/ (unit, stacks/python, python), or a file's name alone or
#   without test_ and extension (test_recorder.py, recorder, 'preload_*'); without any, all run.
#   Environment: CUTRACE_BUILD, CUTRACE_ROOT (set by make check), CUTRACE_FULL=1, CUTRACE_SEED=0 of all that is drawn, JOBS,
#   CUTRACE_HANG=600 seconds for one suite (a guard against hangs, not a measure of speed),
#   CUTRACE_RUN a command before compiled tests (the emulator of a cross build).
#
# A suite is a program that prints TAP: build/tests/unit/*, and *.bats, test_*.py and test_*.sh in a folder of tests/ or one below
# it. One that prints no result, no plan (1..N), more or fewer results than its plan, or fails without a failed result counts as
# one failure named after it. One with a line "# long: why" runs where CUTRACE_FULL=1, or where its file is named. How long each
# took is kept in build/suite-seconds; where there is none, tests/suite-seconds says what comes first. Both decide about the order
# alone.
set -u

root=${CUTRACE_ROOT:-$(cd "$(dirname "$0")/.." && pwd)}
build=${CUTRACE_BUILD:-$root/build}
jobs=${JOBS:-$(($(nproc) * 3 / 2))} # suites that wait leave a processor to another one
export CUTRACE_ROOT=$root CUTRACE_BUILD=$build CMOCKA_MESSAGE_OUTPUT=TAP PYTHONDONTWRITEBYTECODE=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=0} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

# ---- which suites there are
name_of() {
    case $1 in
    "$root"/tests/*) echo "${1#"$root"/tests/}" ;;
    */tests/unit/*) echo "unit/${1##*/}" ;; # of whichever build
    "$root"/*) echo "${1#"$root"/}" ;;
    *) echo "$1" ;;
    esac
}

every_suite() {
    local file
    find "$root/tests" -mindepth 2 -maxdepth 3 -type f \( -name '*.bats' -o -name 'test_*.py' -o -name 'test_*.sh' \) |
        if [ -n "${CUTRACE_FULL:-}" ]; then cat; else xargs -d '\n' grep -L '^# long: '; fi |
        while read -r file; do
            if [[ -x $file || $file = *.bats ]]; then
                echo "$file"
            else
                echo "run-suites: $file is not executable" >>"$work/warnings"
            fi
        done
    [ ! -d "$build/tests/unit" ] ||
        find "$build/tests/unit" -maxdepth 1 -type f -executable ! -name '*.so' ! -name '*.o'
}

chosen() { # [SUITE...]: files
    local word file name short found
    every_suite | LC_ALL=C sort >"$work/every"
    [ $# != 0 ] || cat "$work/every"
    for word in "$@"; do
        word=${word%/}
        found=
        while read -r file; do
            name=$(name_of "$file") short=${file##*/}
            short=${short%.py} short=${short%.sh} short=${short%.bats}
            # shellcheck disable=SC2053 # a word may be a pattern
            if [[ ${file##*/} != $word && $short != $word && ${short#test_} != $word && $name != "${word#tests/}" && $file != "$word" &&
                /$name != */"${word#tests/}"/* ]]; then
                continue
            fi
            found=1
            echo "$file"
        done <"$work/every"
        # A script that is no suite of its own accord, and a file of elsewhere.
        if [ -z "$found" ]; then
            file=$(find "$root/tests" -name "${word##*/}" -type f -executable)
            [ -n "$file" ] || [ ! -f "$word" ] || file=$(realpath "$word")
            if [ -n "$file" ]; then
                found=1
                echo "$file"
            fi
        fi
        [ -n "$found" ] || echo "run-suites: no suite is called $word" >>"$work/warnings"
    done | awk '!seen[$0]++'
}

# What a suite started and left: a session of its own survives what timeout(1) kills. They have its folder.
end_processes() { # FOLDER
    local environment
    for environment in /proc/[0-9]*/environ; do
        if grep -qzxF "TMPDIR=$1" "$environment" 2>/dev/null; then
            kill -KILL "$(basename "$(dirname "$environment")")" 2>/dev/null
        fi
    done
}

# ---- one suite: leaves its counts and its report under $work
run_one() { # LEG FILE
    local leg=$1 suite=$2 name tag plan ok bad skipped seconds processor extra=
    name=${leg:+$leg: }$(name_of "$suite")
    tag=$leg.$(name_of "$suite")
    tag=${tag//\//_}
    local out=$work/$tag.out err=$work/$tag.err report=$work/$tag.report status
    local hang=${CUTRACE_HANG:-$([ -n "${CUTRACE_FULL:-}" ] && echo 14400 || echo 600)}
    # Under an emulator a suite that starts programs itself must know how (CUTRACE_RUN).
    if [[ ${CUTRACE_RUN:-} == qemu-* && $suite != "$build"/* ]] && ! grep -q CUTRACE_RUN "$suite" &&
        [[ $suite != */test_library.sh ]]; then
        echo "0 0 1 0" >"$work/$tag.count"
        echo "skip   $name: it does not run its programs under an emulator" >"$report"
        flock "$work/lock" cat "$report"
        return
    fi
    mkdir -p "$work/$tag.tmp"
    local -a command=("$suite")
    case $suite in
    *.bats) command=(bats --tap "$suite") ;;
    *.py) command=(python3 "$suite") ;;
    "$build"/*) [ -n "${CUTRACE_RUN:-}" ] && read -ra command <<<"$CUTRACE_RUN $suite" ;;
    esac
    local TIMEFORMAT='%0R %1R %1U %1S'
    {
        time {
            (cd "$work/$tag.tmp" && TMPDIR=$work/$tag.tmp exec timeout -k 10 "$hang" "${command[@]}") \
                >"$out" 2>"$err" </dev/null
            status=$?
        }
    } 2>"$work/$tag.time"
    rm -rf "$work/$tag.tmp"
    read -r whole seconds processor < <(awk 'END { print $1, $2, $3 + $4 }' "$work/$tag.time")

    # Counted as text of their own lines; a plan "1..0 # SKIP reason" is one skipped test.
    read -r plan ok bad skipped < <(awk '
        /^1\.\.0[ \t]*(#|$)/ { skipped++; next }
        /^1\.\.[0-9]+/ { split($1, p, /\.\./); plan += p[2]; next }
        /^not ok [0-9]+ # *SKIP/ { skipped++; next } # as cmocka 1.1.5 writes it
        /^not ok/ { bad++; next }
        /^ok/ { if (tolower($0) ~ /# *skip/) skipped++; else ok++ }
        END { print plan + 0, ok + 0, bad + 0, skipped + 0 }' "$out")
    if [ "$whole" -ge "$hang" ]; then
        end_processes "$work/$tag.tmp"
        extra="stopped by the hang guard after $hang s"
    elif [ "$((ok + bad + skipped))" = 0 ]; then
        extra="no TAP result (exit status $status)"
    elif [ "$plan" != "$((ok + bad + skipped))" ] && ! grep -q '^1\.\.0' "$out"; then
        extra="$((ok + bad + skipped)) results of $plan planned (exit status $status)"
    elif [ "$status" != 0 ] && [ "$bad" = 0 ]; then
        extra="exit status $status without a failed test"
    fi
    [ -n "$extra" ] && bad=$((bad + 1))
    {
        printf '%s %s: %d passed, %d failed, %d skipped (%s s, %s s of a processor)\n' \
            "$([ "$bad" = 0 ] && echo 'ok    ' || echo 'not ok')" "$name" "$ok" "$bad" "$skipped" "$seconds" "$processor"
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
    echo "$ok $bad $skipped $seconds" >"$work/$tag.count"
    flock "$work/lock" cat "$report"
}

# ---- all of a plan: lines of LEG, tab, FILE; LEG.env is what the leg's suites find in their environment
longest_first() { # PLAN
    # A suite that no table knows is taken for one of 20 seconds.
    cat "$root/tests/suite-seconds" "$build/suite-seconds" 2>/dev/null | awk -v plan="$1" -v root="$root/" '
        { seconds[$1] = $2 }
        END {
            while ((getline line <plan) > 0) {
                split(line, part, "\t")
                name = part[2]
                if (!sub(".*/tests/unit/", "unit/", name) && !sub("^" root "tests/", "", name)) sub("^" root, "", name)
                key = (part[1] == "" ? "" : part[1] ":") name
                if (!(key in seconds)) key = "gcc:" name
                print (key in seconds ? seconds[key] : 20) "\t" line
            }
        }' | sort -s -t "$(printf '\t')" -k 1,1nr | cut -f 2-
}

run_plan() {
    local suite leg tag ok bad skip seconds passed=0 failed=0 skipped=0
    longest_first "$work/plan" >"$work/ordered"
    xargs -r -d '\n' -n 1 -P "$jobs" "$0" --one "$work" <"$work/ordered"

    # A suite whose runner died itself has no count: it is a failure too.
    while IFS='|' read -r leg suite; do
        tag=$leg.$(name_of "$suite")
        if read -r ok bad skip seconds <"$work/${tag//\//_}.count"; then
            passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
            echo "${leg:+$leg:}$(name_of "$suite") $seconds" >>"$work/seconds"
        else
            echo "not ok ${leg:+$leg: }$(name_of "$suite"): its result is missing"
            failed=$((failed + 1))
        fi
    done < <(tr '\t' '|' <"$work/plan")
    if [ -s "$work/warnings" ]; then
        sort -u "$work/warnings" | sed 's/^/not ok /' | tee "$work/wrong"
        failed=$((failed + $(wc -l <"$work/wrong")))
    fi
    if [ ! -s "$work/plan" ]; then
        echo "not ok no suite found"
        failed=$((failed + 1))
    fi
    # Of suites that ran now the new times, of the others the old ones. (It may be somebody else's folder.)
    cat "$build/suite-seconds" "$work/seconds" 2>/dev/null | awk '{ seconds[$1] = $2 } END { for (s in seconds) print s, seconds[s] }' |
        LC_ALL=C sort >"$work/merged"
    cp "$work/merged" "$build/suite-seconds" 2>/dev/null
    echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
    [ "$failed" = 0 ]
}

plan_leg() { # LEG [SUITE...]
    local leg=$1
    shift
    export -p >"$work/leg.$leg.env"
    chosen "$@" | awk -v leg="$leg" '{ print leg "\t" $0 }' >>"$work/plan"
}

case ${1:-} in
--one) # WORK, a line of the plan
    work=$2 leg=${3%%$'\t'*}
    # shellcheck disable=SC1090 # written by plan_leg
    . "$work/leg.$leg.env"
    build=$CUTRACE_BUILD
    run_one "$leg" "${3#*$'\t'}"
    exit
    ;;
--plan)
    work=$2
    shift 2
    plan_leg "$@"
    ;;
--run)
    work=$2
    run_plan
    ;;
*)
    work=$(mktemp -d "${TMPDIR:-/tmp}/cutrace-tests.XXXXXX") || exit 2
    trap 'rm -rf "$work"' EXIT
    if [ "${1:-}" = --list ]; then
        shift
        chosen "$@" | while read -r suite; do name_of "$suite"; done
        cat "$work/warnings" 2>/dev/null >&2
        exit 0
    fi
    plan_leg "" "$@"
    run_plan
    exit # (a shell reads on behind this, where a script that was edited meanwhile has something else)
    ;;
esac
