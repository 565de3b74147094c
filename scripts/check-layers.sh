#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the order of the rooms: data flows from preload through the trace to tools, the contract between the two is
# include/cutrace alone, and a file uses its own room and lower ones. Upward includes fail, and upward calls and circles
# of calls between files, which the symbols of the built objects show (make first; CUTRACE_BUILD: where they are).
set -eu
cd "$(dirname "$0")/.."
build=${CUTRACE_BUILD:-build}
# The rooms, highest first.
rooms=$(tr -s '\n' ' ' <<'LIST'
preload/intercept preload/record preload/stack preload/write preload/store preload/base
tools/run tools/watch
tools/report/command tools/report/bundle tools/report/page tools/report/views tools/report/print tools/report/answer tools/report/cli tools/report/export tools/report/diagnose tools/report/compare tools/report/layout tools/report/processes tools/report/sites tools/report/allocator tools/report/question tools/report/analyze tools/report/snapshot tools/report/copy tools/report/replay tools/report/text tools/report/symbols tools/report/read
tools/base
include/cutrace/model include/cutrace/format
LIST
)

status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
refuse() { # RULE OFFENDERS
    [ -z "$2" ] && return
    printf '%s:\n%s\n' "$1" "$2" >&2
    status=1
}

# "FILE INCLUDED" for every #include of a folder's files. What the repository has is named by its path, found as the compiler
# finds it; anything else is /NAME. (Each file is looked at, so what one reaches through others is seen where it is included.)
includes() { # FOLDERS...
    grep -rE '^[[:space:]]*#[[:space:]]*include' --include='*.[chS]' "$@" | LC_ALL=C sort |
        sed -nE 's/^([^:]*):[^"<]*(["<])([^">]*)[">].*/\1 \2 \3/p; t; s/^([^:]*):.*/\1 ? ?/p' | awk '
        function has(path,  line, found) {
            if (!(path in known)) { known[path] = (getline line <path) >= 0; close(path) }
            return known[path]
        }
        function normal(path) { while (sub("[^/]+/[.][.]/", "", path)) ; gsub("/[.]/", "/", path); return path }
        BEGIN { n = split("include preload tools tools/report tests/sim", folder, " ") }
        $2 == "?" { print $1, "?"; next }
        {
            here = $1; sub("/[^/]*$", "", here)
            if ($2 == "\"" && has(at = normal(here "/" $3))) { print $1, at; next }
            for (i = 1; i <= n; i++) if (has(at = normal(folder[i] "/" $3))) { print $1, at; next }
            print $1, "/" $3
        }'
}

preload=$(includes preload)
tools=$(includes tools)
contract=$(includes include)
refuse "an include whose file is not written there" "$(printf '%s\n' "$preload" "$tools" "$contract" | grep ' ?$' || :)"
refuse "preload includes tools or tests" "$(printf '%s\n' "$preload" | grep -E ' (tools|tests)/' || :)"
refuse "tools includes preload or tests" "$(printf '%s\n' "$tools" | grep -E ' (preload|tests)/' || :)"
refuse "tools includes a CUDA header" \
    "$(printf '%s\n' "$tools" | grep -E '/(cuda|cudaTypedefs|cuda_runtime_api|driver_types)\.h$' || :)"
refuse "the contract includes its users, or a CUDA header" \
    "$(printf '%s\n' "$contract" | grep -E ' (preload|tools|tests)/|/(cuda|cudaTypedefs|cuda_runtime_api|driver_types)\.h$' || :)"
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

# "SOURCE TYPE SYMBOL" for each symbol of the objects of these sources.
symbols() { # SOURCES...
    for source in "$@"; do
        [ -f "$build/${source%.*}.o" ] || {
            echo "check-layers: $build/${source%.*}.o is missing: run make first" >&2
            exit 1
        }
        echo "$source"
    done >"$work/sources" || exit 1
    sed "s|^|$build/|; s|[.][^.]*$|.o|" "$work/sources" >"$work/objects"
    xargs nm -A <"$work/objects" | awk -v sources="$work/sources" -v objects="$work/objects" '
        BEGIN { while ((getline object <objects) > 0 && (getline source <sources) > 0) of[object] = source }
        { object = $1; sub(":[^:]*$", "", object); print of[object], $(NF - 1), $NF }'
}
# "FILE USED SYMBOL" for each symbol that one object of a program takes from another.
calls() { # reads what symbols() writes
    awk '
        $2 == "U" { used[++n] = $1 " " $3 }
        $2 ~ /^[TDBRC]$/ { home[$3] = $1 }
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
symbols $(find preload -name '*.c' ! -name 'glibc_*.c' | LC_ALL=C sort) $(find preload -name "*_$arch.S") >"$work/library"
# shellcheck disable=SC2046
symbols $(find tools/base tools/watch tools/run tools/report -name '*.c' | LC_ALL=C sort) >"$work/report"
library=$(calls <"$work/library")
report=$(calls <"$work/report")
refuse "check-layers sees no calls" "$([ -n "$library" ] && [ -n "$report" ] || echo 'are the objects empty?')"
# A descriptor in the program's table is for it to see: base/files.c alone opens files.
refuse "a file is opened beside base/files.c" \
    "$(grep -E ' U (open(at)?(64)?|fopen|opendir|socket|pipe2?|dup[23]?)$' "$work/library" | grep -v '^preload/base/files.c ' || :)"
# A pass and a copy of a trace alone drive events: all that hears them is a listener.
refuse "events are driven beside question/pass.c and copy/copy_trace.c" \
    "$(grep -E ' U (ct_replay_next_slow|ct_readahead_next)$' "$work/report" |
        grep -vE '^tools/report/(question/pass|copy/copy_trace|replay/[a-z_]+)\.c ' || :)"
refuse "a room calls a higher one" "$(printf '%s\n' "$library" "$report" | upward)"
refuse "files call each other in a circle" "$(printf '%s\n' "$library" | circles)$(printf '%s\n' "$report" | circles)"
exit $status
