#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the order of the rooms: data flows from preload through the trace to tools, the contract between the two is
# include/cutrace alone, and a file uses its own room and lower ones. Upward includes fail, and upward calls and circles
# of calls between files, which the symbols of the built objects show (make first; CUTRACE_BUILD: where they are).
set -eu
cd "$(dirname "$0")/.."
build=${CUTRACE_BUILD:-build}
CUDA_INC=${CUDA_INC:-$(make -s show-CUDA_INC)}
UNWIND_CFLAGS=$(make -s show-UNWIND_CFLAGS)
GENERATED=$(make -s show-GENERATED)

# The rooms, highest first.
rooms=$(tr -s '\n' ' ' <<'LIST'
preload/intercept preload/record preload/stack preload/write preload/store preload/base
tools/run tools/watch
tools/report/command tools/report/bundle tools/report/page tools/report/views tools/report/print tools/report/cli tools/report/export tools/report/diagnose tools/report/compare tools/report/layout tools/report/processes tools/report/sites tools/report/allocator tools/report/question tools/report/analyze tools/report/snapshot tools/report/copy tools/report/replay tools/report/text tools/report/symbols tools/report/read
tools/base
include/cutrace/model include/cutrace/format
LIST
)

status=0
refuse() { # RULE OFFENDERS
    [ -z "$2" ] && return
    printf '%s:\n%s\n' "$1" "$2" >&2
    status=1
}

# "FILE INCLUDED" for every header that a folder's sources and headers reach: the compiler is asked, so that no spelling of
# a path escapes.
reached_from() {
    find "$@" -name '*.[chS]' 2>/dev/null | LC_ALL=C sort | while read -r file; do
        # shellcheck disable=SC2086 # flags
        gcc -M -std=gnu11 -x c -Iinclude -Ipreload -Itools -Itools/report -Itests/sim -I"$GENERATED" -isystem "$CUDA_INC" \
            $UNWIND_CFLAGS -MG "$file" 2>/dev/null | sed 's/\\$//; s/^[^:]*: *//' | tr -s ' ' '\n' |
            sed "/^$/d; s|^|$file |"
    done
}
# Paths as they stand in the repository, whatever the -I flag that found them.
normal() {
    sed -e 's|/\./|/|g' -e ':again' -e 's|[^/ ]*/\.\./||' -e 't again'
}

preload=$(reached_from preload | normal)
tools=$(reached_from tools | normal)
contract=$(reached_from include | normal)
refuse "preload includes tools or tests" "$(printf '%s\n' "$preload" | grep -E ' (tools|tests)/' || :)"
refuse "tools includes preload or tests" "$(printf '%s\n' "$tools" | grep -E ' (preload|tests)/' || :)"
refuse "tools includes a CUDA header" \
    "$(printf '%s\n' "$tools" | grep -E '/(cuda|cudaTypedefs|cuda_runtime_api|driver_types)\.h$' || :)"
refuse "the contract includes its users" \
    "$(printf '%s\n' "$contract" | grep -E ' (preload|tools|tests)/' || :)"
# CUDA types stop at the recorder's interface.
refuse "the recording side knows a CUDA type" "$(printf '%s\n' "$preload" | grep -v '^preload/intercept/' |
    grep -E '/(cuda|cudaTypedefs|cuda_runtime_api|driver_types)\.h$' || :)"
refuse "a source lies in no room" "$(find preload tools/base tools/report include/cutrace -mindepth 2 -name '*.[chS]' |
    while read -r file; do
        case " $rooms " in *" ${file%/*} "*) ;; *) echo "$file" ;; esac
    done)"

# "HIGHER LOWER" pairs that stand the wrong way round: a room that uses one that is listed before it, of the same program.
upward() { # reads "FILE USED [WHAT]"
    awk -v rooms="$rooms" '
        function room(path) { sub("/[^/]*$", "", path); return path }
        function program(path) { sub("/.*", "", path); return path }
        BEGIN { n = split(rooms, list, " "); for (i = 1; i <= n; i++) rank[list[i]] = i }
        { from = room($1); to = room($2) }
        from in rank && to in rank && program($1) == program($2) && rank[to] < rank[from]'
}
refuse "a room includes a higher one" "$(printf '%s\n' "$preload" "$tools" "$contract" | upward)"

# "FILE USED SYMBOL" for each symbol that one object of a program takes from another.
calls() { # SOURCES...
    for source in "$@"; do
        object=$build/${source%.*}.o
        [ -f "$object" ] || {
            echo "check-layers: $object is missing: run make first" >&2
            exit 1
        }
        nm "$object" | sed "s|^|$source |"
    done | awk '
        NF == 3 && $2 == "U" { used[++n] = $1 " " $3 }
        NF == 4 && $3 ~ /^[TDBRC]$/ { home[$4] = $1 }
        END {
            for (i = 1; i <= n; i++) {
                split(used[i], pair, " ")
                if (pair[2] in home && home[pair[2]] != pair[1])
                    print pair[1], home[pair[2]], pair[2]
            }
        }' | LC_ALL=C sort
}
# What is left when files that call nobody, or are called by nobody, are taken away again and again.
circles() {
    awk '
        { from[NR] = $1; to[NR] = $2; line[NR] = $0 }
        END {
            do {
                changed = 0
                split("", calls); split("", called)
                for (i = 1; i <= NR; i++) if (!(i in gone)) { calls[from[i]]; called[to[i]] }
                for (i = 1; i <= NR; i++)
                    if (!(i in gone) && (!(to[i] in calls) || !(from[i] in called))) { gone[i]; changed = 1 }
            } while (changed)
            for (i = 1; i <= NR; i++) if (!(i in gone)) print line[i]
        }'
}
arch=$(uname -m)
# shellcheck disable=SC2046 # lists of names without blanks
library=$(calls $(find preload -name '*.c' ! -name 'glibc_*.c' | LC_ALL=C sort) $(find preload -name "*_$arch.S"))
# shellcheck disable=SC2046
report=$(calls $(find tools/base tools/watch tools/run tools/report -name '*.c' | LC_ALL=C sort))
refuse "check-layers sees no calls" "$([ -n "$library" ] && [ -n "$report" ] || echo 'are the objects empty?')"
# A descriptor in the program's table is for it to see: base/files.c alone opens files.
refuse "a file is opened beside base/files.c" "$(find preload -name '*.c' ! -path preload/base/files.c | LC_ALL=C sort |
    while read -r source; do
        nm "$build/${source%.c}.o" | sed -nE "s#^ *U (open(at)?(64)?|fopen|opendir|socket|pipe2?|dup[23]?)\$#$source \\1#p"
    done)"
# A pass and a copy of a trace alone drive events: all that hears them is a listener.
refuse "events are driven beside question/pass.c and copy/copy_trace.c" "$(find tools -name '*.c' | LC_ALL=C sort |
    while read -r source; do
        case $source in */question/pass.c | */copy/copy_trace.c | */replay/*) continue ;; esac
        nm "$build/${source%.c}.o" 2>/dev/null | sed -nE "s#^ *U (ct_replay_next_slow|ct_readahead_next)\$#$source \1#p"
    done)"
refuse "a room calls a higher one" "$(printf '%s\n' "$library" "$report" | upward)"
refuse "files call each other in a circle" "$(printf '%s\n' "$library" | circles)$(printf '%s\n' "$report" | circles)"
exit $status
