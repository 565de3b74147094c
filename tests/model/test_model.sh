#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# optional: spin
# Checks the model of the rings' protocol (ring.pml) exhaustively with spin, and that spin finds each planted fault.
# CUTRACE_FULL=1: also larger models (a few minutes and 2 GiB of memory).
set -u

root=${CUTRACE_ROOT:?run by make check}
model=$root/tests/model/ring.pml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0

if ! command -v spin >/dev/null 2>&1; then
    echo "1..0 # SKIP spin is not installed (scripts/setup.sh)"
    exit 0
fi

# What the search says: its states and errors, or why there was none.
search() { # FLAGS...
    rm -rf "$work/pan" && mkdir "$work/pan" && cd "$work/pan" || return
    # pan's own depth limit must not cut the search: it says so if it does. (With -O2, compiling it takes longer than the search;
    # compressed states, which the large worlds need, take half as long again.)
    spin -a "$@" "$model" >log 2>&1 &&
        ${CC:-gcc} -O1 -w -DSAFETY ${CUTRACE_FULL:+-DCOLLAPSE} -o pan pan.c >>log 2>&1 &&
        ./pan -m100000 >>log 2>&1
    cat log
}

check() { # NAME PROBLEM-TEXT
    count=$((count + 1))
    if [ -z "$2" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        printf '%s\n' "$2" | sed 's/^/#   /'
    fi
}

holds() { # NAME FLAGS...
    local name=$1 out
    shift
    out=$(search "$@")
    if grep -q 'errors: 0$' <<<"$out" && ! grep -qE 'not completed|max search depth|out of memory' <<<"$out"; then
        check "$name:$(sed -n 's/^ *\([0-9]*\) states, stored.*/ \1 states/p' <<<"$out")" ""
    else
        check "$name" "$out"
    fi
}

finds() { # FAULT FLAGS...
    local fault=$1 out
    shift
    out=$(search "-D$fault" "$@")
    check "the fault $fault is found" "$(grep -qE '^pan:[0-9]+: assertion violated' <<<"$out" || echo "$out")"
}

faults=$(sed -n 's/^\/\/ *-D\([A-Z_]*\) .*/\1/p' "$model" | grep -vx -e THREADS_FENCE -e CLOCK_STANDS)
worlds=10
seed=${CUTRACE_SEED:-0}
if [ -z "${CUTRACE_FULL:-}" ]; then # two of the small worlds and of the faults, by the seed
    worlds=2
    # shellcheck disable=SC2086 # words
    faults=$(printf '%s\n' $faults $faults | tail -n +$((seed * 2 % $(wc -w <<<"$faults") + 1)) | head -n 2)
fi
number=0
small() { # NAME FLAGS...
    number=$((number + 1))
    if [ -n "${CUTRACE_FULL:-}" ] || [ $(((number + seed) % 2)) = 0 ]; then
        holds "$@"
    fi
}
echo "1..$((worlds + $(wc -w <<<"$faults")))"

small "2 and 1 events, the drainer fences" -DEVENTS=1 -DMORE=1
small "2 and 1 events, the threads fence" -DEVENTS=1 -DMORE=1 -DTHREADS_FENCE
small "2 and 1 events, rings of one" -DEVENTS=1 -DMORE=1 -DSLOTS=1
small "1 event each, a clock that may stand still" -DEVENTS=1 -DCLOCK_STANDS
if [ -n "${CUTRACE_FULL:-}" ]; then
    holds "2 and 1 events, rings of one, the threads fence" -DEVENTS=1 -DMORE=1 -DSLOTS=1 -DTHREADS_FENCE
    holds "1 event each, two drains" -DEVENTS=1 -DDRAINS=2
    holds "2 events each, the drainer fences" -DSLOTS=2
    holds "2 events each, the threads fence" -DSLOTS=2 -DTHREADS_FENCE
    holds "4 and 1 events: losses, and records that tell of them" -DEVENTS=1 -DMORE=3
    holds "1 event each, two drains, a clock that may stand still" -DEVENTS=1 -DDRAINS=2 -DCLOCK_STANDS
fi

for fault in $faults; do
    case $fault in
    TAIL_TOO_EARLY | NEVER_FULL) finds "$fault" -DSLOTS=1 ;;
    LOSS_KEPT) finds "$fault" -DEVENTS=1 -DMORE=3 ;;
    *) finds "$fault" ;;
    esac
done
