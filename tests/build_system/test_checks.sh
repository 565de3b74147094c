#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The checks themselves: the test runner, the layer check and the hook-table check find planted faults.
set -u

root=${CUTRACE_ROOT:?run by make check}
objects=$(realpath "${CUTRACE_BUILD:?run by make check}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MAKELEVEL MFLAGS
count=0

check() { # NAME PROBLEM-TEXT (empty: passed)
    count=$((count + 1))
    if [ -z "$2" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        printf '%s\n' "$2" | head -n 40 | sed 's/^/#   /'
    fi
}

# ---- the runner, on suites that fail in every way it knows
fake=$work/fake
mkdir -p "$fake/tests/x" "$fake/build"
suite() { # NAME, body on standard input
    { echo '#!/bin/sh'; cat; } >"$fake/tests/x/test_$1.sh"
    chmod +x "$fake/tests/x/test_$1.sh"
}
runner() { # hang-seconds [SUITE...]
    local hang=$1
    shift
    CUTRACE_ROOT=$fake CUTRACE_BUILD=$fake/build CUTRACE_HANG=$hang JOBS=4 "$root/tests/run-suites.sh" "$@" 2>&1
}
suite good <<<'echo 1..2; echo ok 1 - a; echo "ok 2 - b # SKIP why"'
out=$(runner 100)
status=$?
check "the runner counts passed and skipped tests" \
    "$([ "$status $(tail -n 1 <<<"$out")" = "0 1 passed, 0 failed, 1 skipped" ] || echo "$status: $out")"

expect_failure() { # NAME TEXT [HANG [SUITE]]: with this suite beside the good one, one test has failed and TEXT is said
    local out status
    # shellcheck disable=SC2086 # no suite: all
    out=$(runner "${3:-100}" ${4:-})
    status=$?
    rm "$fake/tests/x/test_bad.sh"
    check "the runner notices $1" "$(
        [ "$status" = 1 ] || echo "exit status $status"
        [[ $(tail -n 1 <<<"$out") =~ ^[0-9]+\ passed,\ 1\ failed ]] || echo "$out"
        grep -qF "$2" <<<"$out" || echo "not said: $2"
    )"
}
suite bad <<<'echo 1..1; echo not ok 1 - broken; echo detail >&2; exit 1'
expect_failure "a failed test, and shows its output" "| detail"
suite bad <<<'exit 0'
expect_failure "a suite without a result" "no TAP result"
suite bad <<<'echo ok 1 - a'
expect_failure "a suite without a plan" "1 results of 0 planned"
suite bad <<<'echo 1..3; echo ok 1 - a'
expect_failure "a suite that ends early" "1 results of 3 planned"
suite bad <<<'echo 1..1; echo ok 1 - a; exit 3'
expect_failure "a suite that fails without a failed test" "exit status 3"
suite bad <<<'echo 1..1; echo ok 1 - a; kill -9 $$'
expect_failure "a suite that is killed" "exit status 137"
suite bad <<<'echo 1..1; echo ok 1 - a; setsid sleep 1000 & echo $! >"'"$work"'/left"; exec sleep 1000'
expect_failure "a suite that hangs" "hang guard" 1 bad # (alone: on a busy machine the good one may take a second, too)
check "what a suite that hangs has started ends, too" "$(
    for i in $(seq 100); do kill -0 "$(cat "$work/left")" 2>/dev/null || break; sleep 0.1; done
    [ "$i" != 100 ] || echo "process $(cat "$work/left") goes on")"
suite bad <<END
exec python3 -c '
import sys, time
sys.path.insert(0, "$root/tests/lib")
from tap import case, main
@case("a")
def stands_still():
    time.sleep(1000)
main()'
END
expect_failure "a suite in Python that hangs, and where it does" "in stands_still" 20 bad
suite bad <<<'echo 1..1; echo ok 1 - a'
chmod -x "$fake/tests/x/test_bad.sh"
expect_failure "a suite that cannot be executed" "is not executable"

suite bad <<<$'# long: it would fail\necho 1..1; echo not ok 1 - a; exit 1' # (in no line's beginning: this suite is not long)
out=$(CUTRACE_FULL='' runner 100)
check "a long suite is left out of make check" "$([ "$(tail -n 1 <<<"$out")" = "1 passed, 0 failed, 1 skipped" ] || echo "$out")"
CUTRACE_FULL=1 expect_failure "a long suite in make check-long" "| not ok 1 - a"

# A fault of one leg does not hide in another's result, and each leg has its own environment.
# shellcheck disable=SC2016 # the suite expands it
suite where <<<'echo 1..1; [ "$WHERE" = there ] && echo ok 1 - there || echo not ok 1 - "here: $WHERE"'
out=$(
    export CUTRACE_ROOT=$fake CUTRACE_BUILD=$fake/build JOBS=4
    mkdir "$work/plan"
    WHERE=here "$root/tests/run-suites.sh" --plan "$work/plan" one where good
    WHERE=there "$root/tests/run-suites.sh" --plan "$work/plan" two x
    "$root/tests/run-suites.sh" --run "$work/plan"
)
check "a plan runs suites of several legs, each in its own environment" "$(
    [ "$(tail -n 1 <<<"$out")" = "3 passed, 1 failed, 2 skipped" ] || echo "$out"
    grep -q '^not ok one: x/test_where.sh' <<<"$out" && grep -q '^ok     two: x/test_where.sh' <<<"$out" || echo "$out")"
rm "$fake/tests/x/test_where.sh"
for word in good test_good.sh x x/test_good.sh tests/x/test_good.sh; do
    [ "$(runner 100 $word | tail -n 1)" = "1 passed, 0 failed, 1 skipped" ] || echo "$word: $(runner 100 $word)"
done >"$work/names"
check "a suite has a short name" "$(cat "$work/names")"
out=$(runner 100 good nothing)
check "the runner notices a name that no suite has" "$([ "$(tail -n 1 <<<"$out")" = "1 passed, 1 failed, 1 skipped" ] || echo "$out")"
suite slow <<<'echo 1..1; echo ok 1 - a'
suite quick <<<'echo 1..1; echo ok 1 - a'
printf '%s\n' 'x/test_quick.sh 2' 'x/test_good.sh 30' 'x/test_slow.sh 70' >"$fake/build/suite-seconds"
out=$(CUTRACE_ROOT=$fake CUTRACE_BUILD=$fake/build JOBS=1 "$root/tests/run-suites.sh" 2>&1 |
    sed -n 's,^ok *x/test_\([a-z]*\).*,\1,p' | tr '\n' ' ')
check "the longest suite is the first" "$([ "$out" = "slow good quick " ] || echo "$out")"
rm "$fake/build/suite-seconds" "$fake"/tests/x/test_{slow,quick}.sh

# ---- the table of make check-changed: every suite of it exists, every file has a line
# shellcheck disable=SC2046 # a list
check "every suite in tests/changed-suites exists" "$(
    # shellcheck disable=SC2013 # words
    for word in $(sed '/^#/d; s/^[^ ]*//' "$root/tests/changed-suites" | tr ' ' '\n' | sed 's/^-//' | sort -u); do
        "$root/tests/run-suites.sh" --list "$word" 2>&1 >/dev/null
    done)"
changed() { # FILE SUITES: what a change of the file runs
    local out
    out=$("$root/scripts/changed-suites.sh" HEAD "$1")
    [ "${out% }" = "$2" ] || echo "$1: $out"
}
check "a changed file has its suites" "$(
    changed README.md ""
    changed preload/NEW/new.c "preload_* test_recorder"
    changed tests/unit/recorder_program.c "output test_recorder"
    changed tests/report/test_ring.py test_ring.py
    changed nowhere.c unit)"
out=" $("$root/scripts/changed-suites.sh" HEAD tools/report/NEW.c)"
check "what is behind a - is left out of a folder's suites" "$(
    [[ $out == *" report/test_golden.py "* && $out != *" report/test_journal.py "* ]] || echo "$out")"

# ---- layers and hook table, on a copy of the sources
copy=$work/copy
mkdir "$copy"
cp -r "$root/Makefile" "$root/include" "$root/preload" "$root/tools" "$root/scripts" "$copy/"
mkdir -p "$copy/tests"
cuda=${CUDA_INC:-$(make -s -C "$root" show-CUDA_INC)}
[ -n "${cuda##/*}" ] && cuda=$root/$cuda
mkdir -p "$work/objects"
cp -rs "$objects/preload" "$objects/tools" "$work/objects/"
layers() {
    CUTRACE_BUILD=$work/objects "$copy/scripts/check-layers.sh" 2>&1
}
check "the layer check has nothing to say of the sources" "$(layers)"
plant() { # RULE FINDING FILE LINE: one more include
    cp "$copy/$3" "$work/saved"
    printf '%s\n' "$4" >>"$copy/$3"
    noticed "$1" "$2"
    cp "$work/saved" "$copy/$3"
}
plant_object() { # RULE FINDING OBJECT CODE: an object that has this instead
    mv "$work/objects/$3" "$work/saved"
    ${CC:-cc} -x c -c -o "$work/objects/$3" - <<<"$4"
    noticed "$1" "$2"
    mv "$work/saved" "$work/objects/$3"
}
noticed() { # RULE FINDING
    local out
    out=$(layers)
    check "the layer check notices: $1" "$([[ $out == *"$1:"*"$2"* ]] || echo "$out")"
}
plant "preload includes tools or tests" tools/base/human.h preload/store/ring.c '#include "../../tools/base/human.h"'
plant "tools includes preload or tests" preload/store/ring.h tools/report/main.c '#  include "../report/../../preload/store/ring.h"'
plant "tools includes a CUDA header" /cuda.h tools/report/main.c '#include <cuda.h>'
plant "the recording side knows a CUDA type" "preload/store/ring.h /cuda.h" preload/store/ring.h '#include <cuda.h>'
plant "the contract includes its users, or a CUDA header" /cuda.h include/cutrace/model/live.h '#include <cuda.h>'
plant "a room includes a higher one" "replay.h tools/report/analyze" tools/report/replay/replay.h '#include "analyze/scan.h"'
plant "an include whose file is not written there" tools/base/json.c tools/base/json.c '#include ELSEWHERE'
plant_object "a room calls a higher one" ct_scan_finish tools/report/read/trace.o 'void ct_scan_finish(void); void f(void) { ct_scan_finish(); }'
plant_object "files call each other in a circle" ct_trace_open tools/report/read/source.o \
    'int ct_trace_open(void); void ct_source_open(void) { ct_trace_open(); }'
plant_object "a file is opened beside base/files.c" "U open" preload/write/drain.o 'int open(); void f(void) { open(); }'
plant_object "events are driven beside question/pass.c and copy/copy_trace.c" views/frag.c tools/report/views/frag.o \
    'void ct_replay_next_slow(void); void f(void) { ct_replay_next_slow(); }'

api() {
    "$copy/scripts/check-api.py" "$@" "$cuda" 2>&1
}
edited() { # NAME FILE SED-EXPRESSION TEXT
    local out
    cp "$copy/$2" "$work/saved"
    sed -i "$3" "$copy/$2"
    out=$(api --all)
    check "the hook-table check notices $1" \
        "$(cmp -s "$copy/$2" "$work/saved" && echo 'nothing was edited'; grep -qF "$4" <<<"$out" || echo "$out")"
    cp "$work/saved" "$copy/$2"
}
check "every memory function of the CUDA headers in use is hooked or excluded" "$(api >"$work/api" || cat "$work/api")"
edited "a row that is gone" preload/intercept/hooks.def 's/^CT_AFTER_HOOK(cuMemAlloc_v2,/CT_GONE(cuMemAlloc_v2,/' \
    "cuMemAlloc_v2: declared in CUDA"
edited "a runtime row that is gone" preload/intercept/runtime_hooks.def 's/^CT_RTHOOK(cudaMalloc,/CT_GONE(cudaMalloc,/' \
    "cudaMalloc: declared in CUDA"
edited "an exclusion that is gone" preload/intercept/excluded.def 's/ cuMemAlloc,//' "cuMemAlloc: declared in CUDA"
edited "an exclusion without a reason" preload/intercept/excluded.def 's/^CT_EXCLUDE("first ABI[^"]*"/CT_EXCLUDE(""/' \
    "cuMemAlloc: excluded without a reason"
edited "a misspelt row" preload/intercept/hooks.def 's/^CT_BEFORE_HOOK(cuMemFree_v2,/CT_BEFORE_HOOK(cuMemFre_v2,/' \
    "cuMemFre_v2: no header declares it"

# ---- set-up on a machine that has no compiler
mkdir "$work/bare"
for tool in sh cat cut grep; do ln -s "$(type -P $tool)" "$work/bare/"; done
out=$(PATH=$work/bare sh "$root/scripts/setup.sh" build 2>&1)
check "without a compiler, set-up wants every package of its list but what has no need of one" "$(
    for package in $(sh "$root/scripts/setup.sh" --list build); do
        [ "$package" = ca-certificates ] || grep -qF " $package " <<<"$(grep -F 'setup: missing:' <<<"$out") " || echo "$package"
    done)"
echo "1..$count"
