#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the suites that a change can touch: of the commits since BASE, of what is not committed, and of new files.
#
# Usage: changed-suites.sh [BASE [FILE...]]     BASE: origin/main, or HEAD without one. FILEs: instead of the changed ones.
# tests/changed-suites says what tests a folder of sources. A suite tests itself, another file below tests/ its folder.
set -eu
cd "$(dirname "$0")/.."

base=${1:-}
[ $# = 0 ] || shift
[ -n "$base" ] || base=$(git rev-parse -q --verify origin/main 2>/dev/null) || base=HEAD
if [ $# = 0 ]; then
    since=$(git merge-base "$base" HEAD)
    # shellcheck disable=SC2046 # names without spaces
    set -- $(git diff --name-only "$since"; git ls-files --others --exclude-standard)
fi

# The suites of a row: of its folders all but those behind a "-". (Only these are looked up: programs may not be built yet.)
without() { # WORDS
    # shellcheck disable=SC2046 # a list
    left_out=$(tests/run-suites.sh --list $(printf '%s\n' "$@" | sed -n 's/^-//p'))
    for word; do
        case $word in
        -*) ;;
        *) if [ -d "tests/$word" ]; then tests/run-suites.sh --list "$word" | grep -vxF "$left_out"; else echo "$word"; fi ;;
        esac
    done
}

set -f # names of suites have stars
for file; do
    # The longest beginning of its name that the table has.
    suites=$(awk -v file="$file" '
        /^#/ || !NF { next }
        index(file, $1) == 1 && length($1) > length(found) { found = $1; $1 = ""; line = $0 }
        END { print found ? line : "-" }' tests/changed-suites)
    # shellcheck disable=SC2086 # a list
    case $suites in *" -"*) suites=$(without $suites) ;; esac
    case $file in
    *.md | LICENSE) ;;
    tests/*/test_*.py | tests/*/test_*.sh | tests/*.bats) if [ -e "$file" ]; then echo "${file##*/}"; fi ;;
    tests/unit/*_program.c | tests/unit/recorder_runs.py) echo test_recorder output ;;
    tests/unit/*.c) if [ -e "$file" ]; then basename "$file" .c; fi ;;
    tests/*)
        folder=${file#tests/}
        if [ "$suites" != - ]; then echo "$suites"; else echo "${folder%/*}"; fi
        ;;
    *) if [ "$suites" != - ]; then echo "$suites"; else echo unit; fi ;;
    esac
done | tr ' ' '\n' | sed '/^$/d' | sort -u | tr '\n' ' '
