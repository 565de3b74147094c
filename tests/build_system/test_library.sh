#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the built files require of a machine that they are copied to, and which symbols the library shows to its host.
set -u

build=${CUTRACE_BUILD:?run by make check}
library=$build/libcutrace.so
count=0

check() { # NAME PROBLEM-TEXT (empty: passed)
    count=$((count + 1))
    if [ -z "$2" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        printf '%s\n' "$2" | sed 's/^/#   /'
    fi
}

needed() {
    readelf -W -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | LC_ALL=C sort
}
libc_file='^(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux-[a-z0-9_-]*\.so\.[0-9])$'

# "SYMBOL@VERSION" for each versioned import newer than glibc 2.MAX.
newer_than() { # FILE MAX
    readelf -W --dyn-syms "$1" | awk -v max="$2" '$7 == "UND" && $8 ~ /@GLIBC_/ {
        version = $8; sub(/.*@GLIBC_/, "", version)
        if (split(version, part, ".") < 2 || part[1] + 0 != 2 || part[2] + 0 > max) print $8
    }'
    # The versions that the loader checks are those of the version section, used or not.
    readelf -W -V "$1" | grep -oE 'Name: GLIBC_[A-Z0-9_.]+' | awk -v max="$2" '{
        version = $2; sub(/GLIBC_/, "", version)
        if (split(version, part, ".") < 2 || part[1] + 0 != 2 || part[2] + 0 > max) print $2 " in .gnu.version_r"
    }'
}

echo "1..16"
file_kind=$(readelf -W -h "$library" 2>&1 | sed -n 's/^ *Type: *//p')
check "libcutrace.so is a shared library" "$([[ $file_kind == DYN* ]] || echo "$library: ${file_kind:-not an ELF file}")"
[[ $file_kind == DYN* ]] || exit 1
check "libcutrace.so needs only the C library's files" "$(needed "$library" | grep -Ev "$libc_file")"
# What the libc.so.6 of glibc 2.28 has itself of what is otherwise in its libdl and libpthread.
in_old_libc='^(dl_iterate_phdr|pthread_(attr_(destroy|init|setdetachstate)|mutex_(init|lock|unlock)|setcancelstate|self))@'
check "libcutrace.so asks the loader for nothing that glibc before 2.34 keeps in libdl and libpthread" \
    "$(needed "$library" | grep -E '^lib(dl|pthread)\.so'
        readelf -W --dyn-syms "$library" | awk '$7 == "UND" && $5 == "GLOBAL" { print $8 }' |
        grep -E '^(dl|pthread_|sem_)' | grep -Ev "$in_old_libc")"
check "libcutrace.so needs no symbol newer than GLIBC_2.28" "$(newer_than "$library" 28)"
check "libcutrace.so imports nothing unversioned" \
    "$(readelf -W --dyn-syms "$library" | awk '$7 == "UND" && $5 == "GLOBAL" && $8 !~ /@/ && $8 != "" { print $8 }')"
check "exports are the hook table's, no more and no less" \
    "$(diff <(LC_ALL=C sort "$build/exports.txt") \
        <(nm -D --defined-only "$library" | awk '{ print $3 }' | LC_ALL=C sort) | grep '^[<>]' |
        sed 's/^</in the table only:/; s/^>/exported only:/')"
check "the expected exports are a real list" \
    "$([ "$(grep -cE '^(cu|cuda)[A-Z]' "$build/exports.txt")" -ge 100 ] || wc -l "$build/exports.txt")"
check "exports are unversioned" \
    "$(readelf -W --dyn-syms "$library" | awk '$7 != "UND" && $5 == "GLOBAL" && $8 ~ /@/ { print $8 }')"
check "no executable stack" \
    "$(readelf -W -l "$library" | awk '$1 == "GNU_STACK" { seen = 1; if ($7 != "RW") print } END { if (!seen) print "no GNU_STACK" }')"
check "full RELRO" \
    "$(readelf -W -l "$library" | grep -q GNU_RELRO || echo 'no GNU_RELRO'
        readelf -W -d "$library" | grep -q BIND_NOW || echo 'no BIND_NOW')"
check "no text relocations, no run path" "$(readelf -W -d "$library" | grep -E 'TEXTREL|RPATH|RUNPATH')"
check "no writable and executable segment" "$(readelf -W -l "$library" | awk '$1 == "LOAD" && / RWE / { print }')"
for tool in cutrace cutrace-report; do
    if [ -n "${CUTRACE_RUN:-}" ] && [ ! -e "$build/$tool" ]; then
        for what in files symbols; do
            count=$((count + 1))
            echo "ok $count - $tool needs only what it may: $what # SKIP make check-long builds it for another machine"
        done
        continue
    fi
    check "$tool needs only the C library's files" "$(needed "$build/$tool" 2>&1 | grep -Ev "$libc_file")"
    check "$tool needs no symbol newer than GLIBC_2.28, and libpthread and libdl where glibc before 2.34 has its functions" \
        "$(newer_than "$build/$tool" 28
            for file in libpthread.so.0 libdl.so.2; do
                needed "$build/$tool" | grep -qxF "$file" || echo "$file is not named as needed"
            done)"
done
