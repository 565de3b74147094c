#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 or Ubuntu 22.04 to the result of all tests: sets up, builds, runs `make check`.
# The last line is the summary: "N passed, N failed[, N skipped]".
#
# With CI=true: these legs (LEGS chooses), warnings being errors; then their suites in one order, the longest first. What each finds
# that no other does:
#   gcc       every suite, with every optional tool
#   newcomer  the suites that can use an optional tool, without any: what only works here
#   asan      what reads untrusted input, and the recorder's core: wrong accesses and undefined behaviour that end nothing
#   tsan      the recorder's threads: races that no run has lost yet
#   aarch64   the recorder under emulation: what is written for one architecture
#   cuda      the hooks against CUDA 12's headers, and by clang, with the programs of make bench, against the newest: other types
#   lint      scripts/lint.sh, in parts: clang's own warnings of the product, too
# CUTRACE_FULL=1 (make check-long): each leg has all that it can run, and the suites of check-long, by a seed that is drawn. The
# leg clang builds everything. The newcomer does not run: .ci/run has it.
# What passes has one line for each suite; what failed is said again before the summary.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # it is documented as `sh scripts/check.sh`
set -u
cd "$(dirname "$0")/.." || exit 2
exec </dev/null

ci=
[ "${CI:-}" = true ] && ci=1
jobs=$(nproc)
passed=0 failed=0 skipped=0
work=$(mktemp -d)
log=$work/log recap=$work/recap
: >"$recap"
trap 'rm -rf "$work"' EXIT

announce() {
    printf '\n==== %s (%d s)\n' "$*" "$SECONDS"
}
result() { # STATUS NAME [LOG]: one result of its own
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
        echo "ok - $2"
    else
        failed=$((failed + 1))
        [ -z "${3:-}" ] || cat "$3"
        echo "not ok - $2" | tee -a "$recap"
        [ -z "${3:-}" ] || tail -n 8 "$3" | sed 's/^/    /' >>"$recap"
    fi
}
# The failed results in the output of suites, each with the end of what it says of itself: a traceback names its cause last.
remember() {
    awk '
        function tell(  i) { for (i = said > 8 ? said - 7 : 1; i <= said; i++) print "    " line[i % 8]; said = 0 }
        /^  [|] #/ { if (failed) line[++said % 8] = substr($0, 5); next }
        { tell(); failed = 0 }
        /^not ok/ { print; next }
        /^  [|] not ok/ { print "    " substr($0, 5); failed = 1 }
        END { tell() }' "$log" >>"$recap"
}
# Runs suites. Their last line counts; make adds one of its own where a suite failed.
suites() { # COMMAND...
    local p f s
    "$@" 2>&1 | tee "$log"
    remember
    read -r p _ f _ s _ < <(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    if [ -z "${f:-}" ]; then
        result 1 "the suites: no summary"
        return
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + ${s:-0}))
    [ $((p + f)) != 0 ] || result 1 "the suites: no test ran"
}

# ---- what CI builds and runs
# What suites would fetch while the processors wait for it. Each says for itself what it could not get.
prefetch() {
    scripts/fetch-pythons.sh build/deps
    scripts/fetch-pythons.sh build/deps packages
    scripts/fetch-page-tools.sh build/deps
    scripts/fetch-nvtx.sh build/deps
    python3 scripts/fetch-torch.py build/deps
    python3 scripts/fetch-torch.py --whole build/deps
}

has() { # LEG
    [[ " $legs " == *" $1 "* ]]
}

# Every leg's programs, by one make that shares the processors out. A leg that is built leaves built.LEG.
build_legs() {
    local build version
    local -a builds=()
    if has gcc || has newcomer; then
        builds+=("gcc build-tests")
    elif has aarch64 || has tsan || has lint; then # its report reads the others' traces, the layers are those of its objects
        builds+=("gcc all")
    fi
    has aarch64 && builds+=("aarch64 CROSS=aarch64-linux-gnu build-tests")
    has asan && builds+=("asan SAN=address,undefined build-tests")
    has tsan && builds+=("tsan SAN=thread build-tests")
    has clang && builds+=("clang BUILD=build/clang CC=clang DEBUG=1 CFLAGS=-g0 build-tests")
    for version in $(has cuda && echo 12 newest); do
        if scripts/fetch-cuda-headers.sh "$version" build/deps >"$work/include" 2>"$log"; then
            builds+=("cuda-$version BUILD=build/cuda-$version CUDA_INC=$(cat "$work/include") DEBUG=1 CFLAGS=-g0 $(
                [ "$version" = 12 ] || echo CC=clang bench-programs) build-cuda")
        else
            result 1 "CUDA $version headers" "$log"
        fi
    done
    {
        echo "all: ${builds[*]%% *}"
        for build in "${builds[@]}"; do
            printf '.PHONY: %s\n%s:\n' "${build%% *}" "${build%% *}"
            printf "\t+@\$(MAKE) -s %s >'%s' 2>&1 && touch '%s'\n" "${build#* }" "$work/build.${build%% *}" "$work/built.${build%% *}"
        done
    } >"$work/legs.mk"
    make -s -k -j"$jobs" -f "$work/legs.mk" all >/dev/null 2>&1
    for build in "${builds[@]%% *}"; do
        [ -e "$work/built.$build" ]
        result $? "build of $build" "$work/build.$build"
    done
}

plan() { # LEG MAKE-ARGUMENTS...
    local leg=$1
    shift
    has "$leg" || return 0
    if [ -e "$work/built.${built:-$leg}" ] && ! make -s "$@" check-plan PLAN="$work/plan" LEG="$leg" >"$log" 2>&1; then
        result 1 "plan of $leg" "$log"
    fi
}

# The suites as a newcomer has them after `setup.sh build`: PATH has no other command, and only the system's Python and libraries are found.
plan_newcomer() {
    local suite
    has newcomer || return 0
    if ! scripts/newcomer-path.sh "$work/bin" 2>"$log"; then
        result 1 "newcomer: a PATH without optional tools" "$log"
        return
    fi
    mkdir -p "$work/home" "$work/deps/pythons"
    find "$PWD/build/deps" -mindepth 1 -maxdepth 1 ! -name pythons ! -name 'nvtx*' -exec ln -s -t "$work/deps" {} +
    for suite in bullseye trixie sid packages; do echo hidden >"$work/deps/pythons/$suite.skipped"; done
    echo hidden >"$work/deps/nvtx.skipped"
    grep -rIlE '^# optional: ' tests | xargs grep -L '^# long: ' >"$work/optional"
    built=gcc PATH=$work/bin HOME=$work/home PYENV_ROOT=/nonexistent CUTRACE_DEPS=$work/deps \
        CUTRACE_WITHOUT="libjemalloc libtcmalloc libdebuginfod" \
        plan newcomer SUITES="$(tr '\n' ' ' <"$work/optional")"
}

plan_lint() { # NAME PARTS...
    local name=$1
    shift
    has lint || return 0
    TIDY_JOBS=1 CUTRACE_LINT="$*" tests/run-suites.sh --plan "$work/plan" "$name" scripts/lint.sh
}

announce "set-up"
if ! sh scripts/setup.sh ${ci:+all}; then
    echo "not ok - set-up"
    echo "0 passed, 1 failed"
    exit 1
fi

if [ -z "$ci" ]; then
    suites make -s -j"$jobs" check
else
    legs=${LEGS:-gcc asan tsan aarch64 cuda lint $([ -n "${CUTRACE_FULL:-}" ] && echo clang || echo newcomer)}
    export WERROR=1 CUTRACE_HANG=1800
    [ -z "${CUTRACE_FULL:-}" ] || export CUTRACE_HANG=3600 CUTRACE_SEED="${CUTRACE_SEED:-$RANDOM}"
    echo "the seed: ${CUTRACE_SEED:-0}"
    mkdir "$work/plan"
    announce "builds"
    make -s deps >"$log" 2>&1 || result 1 "dependencies" "$log"
    prefetch >"$work/prefetch" 2>&1 &
    build_legs
    wait
    announce "suites"
    plan gcc
    plan asan SAN=address,undefined
    plan tsan SAN=thread
    plan aarch64 CROSS=aarch64-linux-gnu
    plan_newcomer
    plan_lint lint-preload "tidy preload"
    plan_lint lint-tools "tidy tools"
    plan_lint lint-tests "tidy tests"
    plan_lint lint rest
    suites tests/run-suites.sh --run "$work/plan"
fi

if [ -s "$recap" ]; then
    announce "what failed"
    cat "$recap"
fi
echo
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
[ "$failed" = 0 ]
