#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# cutrace run: the environment that it sets, the files that it leaves, and that it is invisible otherwise. An empty
# library stands in for libcutrace.so: these cases test the launcher.
# shellcheck disable=SC2016,SC2086,SC2209 # single quotes on purpose, words to be split, PAGER=cat

setup() {
    ROOT=${CUTRACE_ROOT:-$BATS_TEST_DIRNAME/../..}
    BUILD=${CUTRACE_BUILD:-$ROOT/build}
    cd "$BATS_TEST_TMPDIR" || exit 1
    cp "$BUILD/cutrace" cutrace
    echo | ${CC:-cc} -shared -fPIC -x c - -o libcutrace.so
    here=$(pwd -P)
    cutrace=$here/cutrace
    unset CUTRACE_OUTPUT CUTRACE_QUIET LD_PRELOAD
    export ASAN_OPTIONS=verify_asan_link_order=0
}

@test "the exit code is the program's" {
    for code in 0 1 3 42 125 255; do
        status=0
        "$cutrace" run sh -c "exit $code" 2>/dev/null || status=$?
        [ "$status" -eq "$code" ]
    done
}

@test "a signal is the program's" {
    status=0
    "$cutrace" run sh -c 'kill -TERM $$' 2>/dev/null || status=$?
    [ "$status" -eq 143 ]
    python3 - "$cutrace" <<'END'
import subprocess, sys
done = subprocess.run([sys.argv[1], "run", "sh", "-c", "kill -SEGV $$"], stderr=subprocess.DEVNULL)
assert done.returncode == -11, done.returncode
END
}

@test "own failure 125, not executable 126, not found 127" {
    for arguments in "" "run" "run --nonsense true" "run -o" "walk true"; do
        status=0
        "$cutrace" $arguments >out 2>err || status=$?
        [ "$status" -eq 125 ]
        [ ! -s out ]
        [ -s err ]
    done
    grep -q '^cutrace: walk: no such command' err
    status=0
    "$cutrace" run ./nonexistent 2>err || status=$?
    [ "$status" -eq 127 ]
    grep -q 'cutrace: ./nonexistent' err
    touch plain
    status=0
    "$cutrace" run ./plain 2>err || status=$?
    [ "$status" -eq 126 ]
    rm libcutrace.so
    status=0
    "$cutrace" run true 2>err || status=$?
    [ "$status" -eq 125 ]
    grep -q 'libcutrace.so' err
}

@test "the library is preloaded by its absolute path, before what was there, and for children" {
    "$cutrace" run sh -c 'echo $LD_PRELOAD' 2>/dev/null >out
    [ "$(cat out)" = "$here/libcutrace.so" ]
    cp libcutrace.so other.so
    LD_PRELOAD="$here/other.so" "$cutrace" run sh -c 'sh -c "echo \$LD_PRELOAD"' 2>/dev/null >out
    [ "$(cat out)" = "$here/libcutrace.so:$here/other.so" ]
    LD_PRELOAD="$here/other.so $here/libcutrace.so" "$cutrace" run sh -c 'echo $LD_PRELOAD' 2>/dev/null >out
    [ "$(cat out)" = "$here/libcutrace.so:$here/other.so" ]
    "$cutrace" run sh -c 'grep -c libcutrace.so /proc/self/maps' >out 2>/dev/null
    [ "$(cat out)" -gt 0 ]
}

@test "it is found beside the program, in ../lib, and through a symbolic link" {
    mkdir -p a/bin a/lib b
    mv cutrace a/bin/
    mv libcutrace.so a/lib/
    ln -s ../a/bin/cutrace b/tool
    [ "$(a/bin/cutrace run sh -c 'echo $LD_PRELOAD' 2>/dev/null)" = "$here/a/lib/libcutrace.so" ]
    [ "$(b/tool run sh -c 'echo $LD_PRELOAD' 2>/dev/null)" = "$here/a/lib/libcutrace.so" ]
    mkdir a/lib/cutrace
    mv a/lib/libcutrace.so a/lib/cutrace/
    [ "$(a/bin/cutrace run sh -c 'echo $LD_PRELOAD' 2>/dev/null)" = "$here/a/lib/cutrace/libcutrace.so" ]
}

@test "a folder whose name LD_PRELOAD cannot hold is refused in words" {
    mkdir 'with blank'
    mv cutrace libcutrace.so 'with blank/'
    status=0
    'with blank/cutrace' run true 2>err || status=$?
    [ "$status" -eq 125 ]
    grep -q 'blank' err
}

@test "one line is said of a program that records nothing; one that does is told what stderr is" {
    "$cutrace" run -o 'here.%p.zst' true >out 2>err
    [ ! -s out ]
    grep -q '^cutrace: no trace: ' err
    [ "$(wc -l <err)" -eq 1 ]
    "$cutrace" run --quiet true >out 2>err
    [ ! -s out ]
    [ ! -s err ]
    [ "$("$cutrace" run sh -c 'echo $CUTRACE_ANNOUNCE' 2>err)" = "$(stat -c %d:%i err)" ]
}

@test "the output pattern: -o before CUTRACE_OUTPUT, relative ones are meant from here" {
    show='echo $CUTRACE_OUTPUT'
    [ "$("$cutrace" run -o x.zst sh -c "$show" 2>/dev/null)" = "$here/x.zst" ]
    [ "$("$cutrace" run -ox.zst sh -c "$show" 2>/dev/null)" = "$here/x.zst" ]
    [ "$("$cutrace" run --output=x.zst -- sh -c "$show" 2>/dev/null)" = "$here/x.zst" ]
    [ "$("$cutrace" run -o /tmp/x.zst sh -c "$show" 2>/dev/null)" = /tmp/x.zst ]
    [ "$(CUTRACE_OUTPUT=y.zst "$cutrace" run sh -c "$show" 2>/dev/null)" = y.zst ]
    [ "$(CUTRACE_OUTPUT=y.zst "$cutrace" run -o x.zst sh -c "$show" 2>/dev/null)" = "$here/x.zst" ]
    [ "$("$cutrace" run sh -c "$show" 2>/dev/null)" = "$here/cutrace.%e.%p.zst" ]
    mkdir '100%' && cd '100%'
    [ "$("$cutrace" run -o x.zst sh -c "$show" 2>/dev/null)" = "$here/100%%/x.zst" ]
}

@test "arguments, standard input and the rest of the environment pass unchanged" {
    printf 'in\n' | "$cutrace" run -- sh -c 'cat; for a; do echo "[$a]"; done' sh -o '' 'a b' --help >out 2>/dev/null
    printf 'in\n[-o]\n[]\n[a b]\n[--help]\n' | cmp - out
    env -i PATH="$PATH" A=1 "$cutrace" run env 2>/dev/null | sed 's/=.*//' | sort | tr '\n' ' ' >out
    grep -q '^A CUTRACE_ANNOUNCE CUTRACE_OUTPUT CUTRACE_TRACE_LIST LD_PRELOAD NVTX_INJECTION64_PATH PATH ' out
}

@test "NVTX_INJECTION64_PATH is set; the library of another tool is kept for the recorder to call" {
    show='echo "$NVTX_INJECTION64_PATH;$CUTRACE_NVTX_NEXT"'
    library=$(LD_PRELOAD= "$cutrace" run sh -c 'echo ${LD_PRELOAD%%:*}' 2>/dev/null)
    [ -r "$library" ]
    [ "$(env -u NVTX_INJECTION64_PATH "$cutrace" run sh -c "$show" 2>/dev/null)" = "$library;" ]
    [ "$(NVTX_INJECTION64_PATH= "$cutrace" run sh -c "$show" 2>/dev/null)" = "$library;" ]
    [ "$(NVTX_INJECTION64_PATH=/x/tool.so "$cutrace" run sh -c "$show" 2>/dev/null)" = "$library;/x/tool.so" ]
    [ "$(NVTX_INJECTION64_PATH=/x/tool.so "$cutrace" run "$cutrace" run sh -c "$show" 2>/dev/null)" = "$library;/x/tool.so" ]
}

@test "--inject sets CUDA_INJECTION64_PATH, which is untouched without; another tool's library is kept for the recorder to call" {
    show='echo "$CUDA_INJECTION64_PATH;$CUTRACE_INJECTION_NEXT;${LD_PRELOAD%%:*}"'
    library=$(LD_PRELOAD= "$cutrace" run sh -c 'echo ${LD_PRELOAD%%:*}' 2>/dev/null)
    [ "$(env -u CUDA_INJECTION64_PATH "$cutrace" run sh -c "$show" 2>/dev/null)" = ";;$library" ]
    [ "$(CUDA_INJECTION64_PATH=/x/tool.so "$cutrace" run sh -c "$show" 2>/dev/null)" = "/x/tool.so;;$library" ]
    [ "$(env -u CUDA_INJECTION64_PATH "$cutrace" run --inject sh -c "$show" 2>/dev/null)" = "$library;;$library" ]
    [ "$(CUDA_INJECTION64_PATH=/x/tool.so "$cutrace" run --inject sh -c "$show" 2>/dev/null)" = "$library;/x/tool.so;$library" ]
    [ "$(CUDA_INJECTION64_PATH=/x/tool.so "$cutrace" run --inject "$cutrace" run --inject sh -c "$show" 2>/dev/null)" = \
        "$library;/x/tool.so;$library" ]
}

@test "help lists the environment variables from the option table" {
    "$cutrace" --help >out
    sed -n 's/^CT_OPTION(\([A-Z_]*\),.*/CUTRACE_\1/p' "$ROOT/include/cutrace/format/options.def" >names
    [ -s names ]
    while read -r name; do grep -q "^  $name" out; done <names
    "$cutrace" run --help >run
    while read -r name; do grep -q "^  $name" run; done <names
    [ "$(wc -l <names)" -le 18 ]
    sed -n 's/^CT_INTERNAL(\([A-Z_]*\),.*/CUTRACE_\1/p' "$ROOT/include/cutrace/format/options.def" >names
    [ -s names ]
    while read -r name; do [ "$(grep -c "^  $name" out run)" = "$(printf 'out:0\nrun:0')" ]; done <names
    [ "$("$cutrace" help run)" = "$(cat run)" ]
    [ "$(python3 -c 'print(max(len(l) for l in open("out")))')" -le 110 ]
    "$cutrace" --version | grep -q '^cutrace [0-9]'
}
