#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# cutrace-report --fail-on: each condition just below and just above its bound, what is not known, and wrong usage.
# shellcheck disable=SC2086 # words to be split

setup_file() {
    ROOT=${CUTRACE_ROOT:-$BATS_TEST_DIRNAME/../../..}
    cd "$BATS_FILE_TMPDIR" || exit 1
    python3 "$ROOT/tests/report/cli/gate_traces.py"
}

setup() {
    ROOT=${CUTRACE_ROOT:-$BATS_TEST_DIRNAME/../../..}
    report=${CUTRACE_BUILD:-$ROOT/build}/cutrace-report
    export LC_ALL=C.UTF-8
    unset COLUMNS
    cd "$BATS_FILE_TMPDIR" || exit 1
}

gate() { # EXIT-CODE LINES ARGUMENTS: the exit code, and how many lines there are on stderr
    local want=$1 lines=$2 code=0
    shift 2
    "$report" "$@" >out 2>err || code=$?
    echo "$*: $code"
    cat err
    [ "$code" -eq "$want" ]
    [ "$(wc -l <err)" -eq "$lines" ]
}

@test "peak: 10 MiB are more than a byte less, and no more than 10 MiB" {
    gate 1 1 --fail-on='peak>10485759B' peak.zst
    grep -q -- '--fail-on=peak>10485759B: failed: peak.zst: GPU 0: .*10.00 MiB, at +2.000 s' err
    gate 0 0 --fail-on='peak>10485760B' peak.zst
    gate 0 0 --fail-on='peak>10MiB' peak.zst
    gate 1 1 --fail-on='peak>10MB' peak.zst
    gate 0 0 --fail-on='peak>5MiB' --to=1.5 peak.zst # the range
    gate 1 1 --fail-on='peak>5242879B' --to=1.5 peak.zst
    gate 2 1 --fail-on='peak>1MiB' --device=1 peak.zst # the trace does not have it
    gate 4 1 --fail-on='peak>1MiB' nothing.zst
    grep -q 'no GPU memory was allocated' err
}

@test "growth: 24 MiB in an hour, judged as leaks does; unknown where the time is too short" {
    gate 1 1 --fail-on='growth>25165823B/h' growing.zst
    grep -q 'failed: growing.zst: GPU 0: .* 24.00 MiB an hour, judged over .*leaks has it' err
    gate 0 0 --fail-on='growth>25165824B/h' growing.zst
    gate 4 1 --fail-on='growth>1TiB/h' peak.zst
    grep -q 'not known: peak.zst: GPU 0: growth is not known: .* of at least ' err
    # 59 MiB are held by a call site that cannot be told: at most 59 MiB in 8 hours more
    gate 1 1 --fail-on='growth>23MiB/h' untold.zst
    gate 4 1 --fail-on='growth>24MiB/h' untold.zst
    grep -q 'of call sites that hold 59.00 MiB it is not known whether they grow' err
    gate 4 1 --fail-on='growth>31MiB/h' untold.zst
    gate 0 0 --fail-on='growth>32MiB/h' untold.zst
}

@test "frag: 10 of 100 MiB in segments are free outside the largest free block" {
    gate 1 1 --fail-on='frag>9.99%' frag.zst
    grep -q 'failed: frag.zst: GPU 0: at the peak at .*10.00 MiB of the 100.00 MiB in PyTorch.s segments.* 10.0 %' err
    gate 0 0 --fail-on='frag>10%' frag.zst
    gate 0 0 --fail-on='frag>10' frag.zst
    gate 1 1 --fail-on='frag>10.4%' frag-half.zst
    gate 0 0 --fail-on='frag>10.6%' frag-half.zst # (six tenths)
    gate 4 1 --fail-on='frag>99%' peak.zst
    grep -q 'no block of PyTorch.s was recorded' err
}

@test "oom: the program got the error, whether or not the request succeeded later; or the budget is exceeded" {
    gate 1 1 --fail-on=oom oom.zst
    grep -q '1 request ran out of memory .*the first at +2.000 s (0 succeeded later' err
    gate 1 1 --fail-on=oom recovered.zst
    grep -q '(1 succeeded later' err
    gate 0 0 --fail-on=oom peak.zst
    gate 1 1 --fail-on=oom --capacity=8MiB peak.zst
    grep -q 'the budget of 8 MiB' err
    gate 0 0 --fail-on=oom --capacity=16MiB peak.zst
}

@test "lost: lost events and damage; they make everything else unknown, but not what is known to fail" {
    gate 1 1 --fail-on=lost lost.zst
    grep -q '7 events were lost' err
    gate 0 0 --fail-on=lost peak.zst
    gate 4 1 --fail-on='peak>1GiB' lost.zst
    grep -q 'not known: lost.zst: .*7 events were lost' err
    gate 1 1 --fail-on='peak>1KiB' lost.zst
    gate 1 2 --fail-on='peak>1GiB,lost' lost.zst
    gate 4 1 --fail-on='peak>1GiB' sampled.zst
    grep -q 'one allocation in 10 was recorded' err
}

@test "a trace whose end is missing never passes, and a program that allocated nothing was perhaps not traced" {
    killed=$ROOT/tests/report/golden/traces/killed.zst
    for list in oom 'peak>1TiB' 'frag>100' 'growth>1TiB/h'; do
        [ "$("$report" --fail-on="$list" "$killed" >out 2>err || echo $?)" -eq 4 ]
        grep -q -- "--fail-on=$list: not known: " err
    done
    [ "$("$report" --fail-on='peak>1MiB,oom' "$killed" >out 2>err || echo $?)" -eq 1 ]
    gate 4 1 --fail-on='peak>1TiB' nothing.zst
    grep -q 'is the program traced?' err
    gate 0 0 --fail-on=oom,lost nothing.zst
}

@test "what was overwritten: the peak is of the history, its pool is not known, nor whether the program got the error" {
    gate 1 1 --fail-on='peak>49MiB' overwritten.zst
    gate 0 0 --fail-on='peak>50MiB' overwritten.zst
    gate 4 1 --fail-on='frag>99%' overwritten.zst
    grep -q 'the pool at the peak is not known: the events then were overwritten' err
    gate 0 0 --fail-on=oom overwritten.zst
    gate 4 1 --fail-on=oom overwritten-oom.zst
    grep -q 'not known: overwritten-oom.zst: 2 allocations failed in the time whose events are overwritten' err
}

@test "diff judges B, and changes from A: size, share, points" {
    gate 0 0 diff --fail-on='peak>10MiB' peak-more.zst peak.zst
    gate 1 1 diff --fail-on='peak>10MiB' peak.zst peak-more.zst
    gate 1 1 diff --fail-on='peak>+4.99%' peak.zst peak-more.zst
    grep -q 'in A 10.00 MiB, a change of +512.00 KiB' err
    gate 0 0 diff --fail-on='peak>+5%' peak.zst peak-more.zst
    gate 1 1 diff --fail-on='peak>+524287B' peak.zst peak-more.zst
    gate 0 0 diff --fail-on='peak>+512KiB' peak.zst peak-more.zst
    gate 0 0 diff --fail-on='peak>+0B' peak-more.zst peak.zst # less is no change for the worse
    gate 1 1 diff --fail-on='peak>+1MiB' peak.zst rank1.zst # the one GPU of each
    gate 1 1 diff --fail-on='growth>+49.99%' growing.zst growing-more.zst
    gate 0 0 diff --fail-on='growth>+50%' growing.zst growing-more.zst
    gate 1 1 diff --fail-on='growth>+12582911B/h' growing.zst growing-more.zst
    gate 0 0 diff --fail-on='growth>+12MiB/h' growing.zst growing-more.zst
    gate 4 1 diff --fail-on='growth>+1GiB/h' peak.zst growing.zst
    grep -q 'growth of A is not known' err
    gate 4 1 diff --fail-on='peak>+1GiB' lost.zst peak.zst # what A lost may make the change smaller or larger
    grep -q 'not known: peak.zst: .* of lost.zst: 7 events were lost' err
    gate 0 0 diff --fail-on='peak>1GiB' lost.zst peak.zst # no change is asked for
    gate 1 1 diff --fail-on='frag>+4.99%' frag.zst frag-more.zst
    gate 0 0 diff --fail-on='frag>+5%' frag.zst frag-more.zst
    gate 0 0 diff --fail-on='oom,lost' oom.zst peak.zst
    gate 1 1 diff --fail-on='oom,lost' peak.zst oom.zst
    gate 1 1 diff --fail-on='peak>9MiB' --at=1 --at=end peak.zst # of the whole trace
}

@test "several traces: each is judged; what fails comes before what is unknown, and both before a file that is none" {
    gate 1 2 --fail-on='peak>10MiB' peak.zst peak-more.zst lost.zst
    gate 1 2 --json --fail-on='peak>10MiB' peak.zst peak-more.zst lost.zst
    python3 -c 'import json; json.load(open("out"))'
    gate 4 1 --fail-on='peak>20MiB' peak.zst peak-more.zst lost.zst
    echo none >none
    gate 1 2 --fail-on='peak>10MiB' none peak-more.zst
    gate 0 0 --fail-on='peak>20MiB' peak.zst peak-more.zst
    gate 1 1 --fail-on='peak>9MiB' - <peak.zst
}

@test "wrong usage: one line that says what is expected" {
    for list in '' oom,,lost nothing 'oom>1' peak 'peak>' 'peak>20' 'peak>x' 'peak>5%' 'peak>1GiB/h' 'growth>1GiB' 'growth>1GiB/hour' \
        'frag>' 'frag>101%' 'frag>-1' 'frag>1.234%' 'lost>1' 'peak<1GiB' 'peak>1GiB,' 'peak>+1GiB' 'frag>+5%' \
        "$(printf 'oom,%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)oom" "$(printf '%0100d' 0)"; do
        gate 2 1 --fail-on="$list" peak.zst
        grep -q '^cutrace-report: --fail-on' err
    done
    gate 2 1 top --fail-on=oom peak.zst
    gate 2 1 diff peak.zst
    grep -q 'name a second trace, or give --at twice' err
    gate 2 1 diff --at=peak peak.zst
    gate 2 1 diff peak.zst peak.zst peak.zst
    gate 2 1 diff --at=1 --at=2 --at=3 peak.zst
    gate 2 1 diff - -
    gate 3 1 diff peak.zst no-such-file
    gate 3 1 diff no-such-file peak.zst
    gate 0 0 diff - peak.zst <peak-more.zst
}
