#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All checks of the sources, as TAP: format, clang-tidy, shellcheck, layers, hook table against CUDA headers.
# CUTRACE_LINT=rest leaves clang-tidy out, CUTRACE_LINT="tidy FOLDER..." is clang-tidy alone, of these folders.
# Without PyPI the comparison with the newest headers is a loud skip, or a failure where CI=true.
set -u
cd "$(dirname "$0")/.." || exit 2
count=0 failed=0

step() { # NAME COMMAND...
    local name=$1 out
    shift
    count=$((count + 1))
    if out=$("$@" 2>&1); then
        echo "ok $count - lint: $name"
        printf '%s\n' "$out" | grep '^#' || :
    else
        failed=$((failed + 1))
        echo "not ok $count - lint: $name"
        printf '%s\n' "$out" | sed 's/^/#   /'
    fi
}

shell_files() {
    find . -path ./build -prune -o -path './build-*' -prune -o -path ./.git -prune -o \
        -type f \( -name '*.sh' -o -path './.ci/*' \) -print | LC_ALL=C sort
}
shell_check() {
    shell_files | xargs -d '\n' -n 8 -P "$(nproc)" shellcheck
}
heads() { # every source says its licence
    find include preload tools tests scripts Makefile .ci -type f \
        \( -name '*.[chS]' -o -name '*.def' -o -name '*.sh' -o -name '*.py' -o -name '*.mk' -o -name '*.bats' \
        -o -name Makefile -o -path '.ci/*' \) -exec grep -L 'SPDX-License-Identifier: Apache-2.0' {} + |
        grep . && return 1
    return 0
}
# In CI the files that the last commits changed, or whose header they changed; all of them in check-long, without a history, and
# when the rules themselves changed. (All take 280 s of a processor, and a file that is as it was has the warnings that it had.)
RECENT=40
changed() { # lists what is to be looked at, of the files on standard input
    local touched
    touched=$(git log "-$RECENT" --format= --name-only 2>/dev/null | LC_ALL=C sort -u)
    if [ "${CI:-}" != true ] || [ -n "${CUTRACE_FULL:-}" ] || [ -z "$touched" ] ||
        grep -qxE '\.clang-tidy|scripts/check-tidy\.sh' <<<"$touched"; then
        cat
    else
        grep -xF "$(sed -n 's/\.[ch]$/.c/p' <<<"$touched")"
    fi
}
tidy() { # FOLDER...
    local all files
    all=$(find "$@" -name '*.c' | LC_ALL=C sort)
    files=$(changed <<<"$all")
    echo "# $(wc -w <<<"$files") of $(wc -w <<<"$all") files"
    # shellcheck disable=SC2086 # names without spaces
    [ -z "$files" ] || scripts/check-tidy.sh $files
}
# A suite that runs less without an optional tool says so, for .ci/run runs it without one, too.
optional() {
    grep -rIlE "shutil\.which|command -v|CUTRACE_WITHOUT|test_frames\.(fetch|interpreters)|^ *fetch\(\)" tests \
        --include='test_*' --include='*.bats' | xargs grep -L '^# optional: ' | grep . && return 1
    return 0
}

# Where things are fetched from is the set-up of pip, apt-get and npm on the machine: no script or test names a host for it.
hosts() {
    grep -rnIE '(https?|ftp)://[a-z0-9-]+\.[a-z0-9.-]*[a-z]|\b[a-z0-9-]+\.(org|com)\b' scripts tests Makefile .ci \
        --exclude-dir=results --exclude=log.txt --exclude=case.json |
        grep -vE '//(www\.w3|json-schema)\.org|//docs\.|pytorch\.org/docs|/issues/|example\.(org|com)' &&
        return 1
    return 0
}

CUDA_INC=${CUDA_INC:-$(make -s show-CUDA_INC)}
DEPS=${DEPS_DIR:-build/deps}
export CUDA_INC
make -s deps >/dev/null || { echo "not ok 1 - lint: dependencies"; exit 1; }

parts=${CUTRACE_LINT:-tidy preload tools tests rest}
case " $parts " in
*" tidy "*)
    folders=${parts#tidy }
    # shellcheck disable=SC2086 # a list
    step "clang-tidy of ${folders% rest}" tidy ${folders% rest}
    ;;
esac
case " $parts " in
*" rest "*)
    step "sources have the form of .clang-format" scripts/check-format.sh
    step "shellcheck" shell_check
    step "licence heads" heads
    step "no script or test names a host to fetch from" hosts
    step "layers" scripts/check-layers.sh
    step "suites say which optional tools they can use" optional
    step "the page's bundle is made from its sources" scripts/check-page-bundle.sh
    step "hook table against the CUDA headers in use" scripts/check-api.py "$CUDA_INC"
    if newest=$(scripts/fetch-cuda-headers.sh newest "$DEPS" 2>/dev/null) &&
        oldest=$(scripts/fetch-cuda-headers.sh 12 "$DEPS" 2>/dev/null); then
        step "hook table against CUDA 12's and the newest CUDA headers" \
            scripts/check-api.py --all "$oldest" "$CUDA_INC" "$newest"
    else
        count=$((count + 1))
        if [ "${CI:-}" = true ]; then
            failed=$((failed + 1))
            echo "not ok $count - lint: hook table against the newest CUDA headers: PyPI cannot be reached"
        else
            echo "ok $count - lint: hook table against the newest CUDA headers # SKIP PyPI cannot be reached"
            echo "lint: NOT CHECKED against the newest CUDA headers: PyPI cannot be reached" >&2
        fi
    fi
    ;;
esac
echo "1..$count"
[ "$failed" = 0 ]
