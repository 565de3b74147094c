#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# cutrace-report as a command: options, exit codes, colours, pager, pipes, help.
# shellcheck disable=SC2016,SC2086,SC2209 # single quotes on purpose, words to be split, PAGER=cat

setup() {
    ROOT=${CUTRACE_ROOT:-$BATS_TEST_DIRNAME/../..}
    BUILD=${CUTRACE_BUILD:-$ROOT/build}
    report=$BUILD/cutrace-report
    traces=$ROOT/tests/report/golden/traces
    terminal=$ROOT/tests/report/cli/on_terminal.py
    export LC_ALL=C.UTF-8 TERM=xterm PAGER=cat
    unset NO_COLOR CLICOLOR_FORCE FORCE_COLOR CUTRACE_PAGER COLUMNS
    cd "$BATS_TEST_TMPDIR" || exit 1
}

escapes() { # standard input holds terminal sequences
    grep -q $'\033'
}

lacks() { # standard input has no line like this
    if grep -q "$@"; then return 1; fi
}

valid() { # standard input is the JSON of this command by its schema, and passes through
    python3 "$ROOT/tests/lib/schema.py" "$1"
}

plain() { # standard input holds no terminal sequences
    lacks $'\033'
}

@test "summary is what happens without a command, and has at most 24 lines" {
    ln -s "$traces" traces # (a long path costs a line)
    for trace in traces/*.zst; do
        "$report" "$trace" >a 2>/dev/null || [ $? -eq 4 ]
        "$report" summary "$trace" >b 2>/dev/null || [ $? -eq 4 ]
        cmp a b
        [ "$(wc -l <a)" -le 24 ]
        "$report" --capacity 100MiB "$trace" >c 2>/dev/null || [ $? -eq 4 ]
        [ "$(wc -l <c)" -le 24 ]
    done
}

@test "several traces: one screen, and one list of verdicts over all of them" {
    vllm="$ROOT/tests/report/vllm"
    set -- "$vllm"/load-model/trace.zst "$vllm"/neighbour/trace.zst "$vllm"/logits/trace.zst "$vllm"/eager/trace.zst
    COLUMNS=80 "$report" "$@" >out
    cat out
    [ "$(wc -l <out)" -le 24 ]
    head -n 1 out | grep -q '^OUT OF MEMORY: pid '
    grep -q '^  verdict ' out
    COLUMNS=80 "$report" explain "$@" >out
    cat out
    [ "$(grep -c '^verdict: ' out)" -eq 1 ]
    [ "$(grep -c '^also possible: ' out)" -eq 2 ]
    [ "$(grep -c '^  of  *pid ' out)" -eq 3 ]
    lacks '^== ' <out
    "$report" explain --json "$@" | valid explain >out
    grep -q '"schema":"cutrace.processes/2"' out
    "$report" explain "$vllm"/logits/trace.zst "$vllm"/logits/log.txt | grep -c '^== ' | grep -q '^2$'
}

@test "summary has at most 24 lines with many devices, call sites, readings and refusals" {
    python3 - <<END
import sys
sys.path.insert(0, "$ROOT/tests/lib")
from mktrace import Trace
G = 1 << 30
t = Trace()
t.info = {"clock.monotonic_ns": "1", "clock.realtime_ns": "2"}
for d in range(16):
    t.info.update({"device.%d.total_bytes" % d: str(80 * G), "device.%d.nvml_total_bytes" % d: str(81 * G),
                   "device.%d.name" % d: "GPU" * 60})
for i in range(3000):
    t.event("alloc", 1000 + i, api="cuMemAlloc_v2", ptr=0x1000000 + i * G, bytes=1000 + i, device=i % 16, result=0, space="device",
            stack=[("function_%d" % (i % 200), "/opt/app")])
t.event("context-create", 5000, device=0, result=0, free_before_bytes=70 * G, free_bytes=69 * G, total_bytes=80 * G)
t.event("alloc", 5001, ptr=0x77, bytes=7, space="managed", device=0, result=0)
t.event("memory-sample", 5002, device=0, free_bytes=G, total_bytes=81 * G, process_bytes=60 * G, flags=["nvml"])
for i in range(5):
    t.event("alloc", 6000 + i, api="cuMemAlloc_v2", bytes=3 * G + 1, device=0, result=2, space="device", thread_name="worker",
            stack=[("function_%d" % i, "/opt/app")], free_bytes=G, total_bytes=80 * G)
t.event("lost", 7000, count=9)
t.flush(last=True)
open("many.zst", "wb").write(t.bytes())
END
    "$report" many.zst >out
    cat out
    [ "$(wc -l <out)" -le 24 ]
    [ "$(wc -l <out)" -ge 20 ]
    head -n 1 out | grep -q '^OUT OF MEMORY on GPU 0: .* asked for 3.00 GiB; 1.00 GiB was free'
    grep -q 'GPU 15\|other devices' out
}

@test "version and licences" {
    "$report" --version | grep -q '^cutrace-report [0-9]*\.[0-9]*\.[0-9]*, reads trace format up to version 3$'
    "$report" help licenses >out
    for name in Apache zstd libiberty elfutils libunwind xxHash; do grep -q "$name" out; done
}

@test "what views leave out is documented, and comes with --all-frames" {
    "$report" help noise | cmp - "$ROOT/tools/report/symbols/NOISE.md"
    # Each row once, with no * but at its ends.
    sed -n 's/^CT_NOISE\(_KEEP\)\?([A-Z]*, "\(.*\)")$/\2/p' "$ROOT/include/cutrace/model/noise.def" >rows
    [ "$(wc -l <rows)" -gt 90 ]
    lacks -v '^\*\?[^*]\+\*\?$' rows
    [ -z "$(sort rows | uniq -d)" ]
    while read -r row; do grep -qF "\`$row\`" "$ROOT/tools/report/symbols/NOISE.md"; done <rows
    "$report" oom "$traces/python.zst" >few
    "$report" oom --all-frames "$traces/python.zst" >all
    lacks 'c10::\|_start\|module.py' few
    for frame in c10:: _start module.py; do grep -q "$frame" all; done
    grep -q '^  where     gpu_model_runner.py:2071 GPUModelRunner.initialize_kv_cache$' few
    grep -q '^            model.py:1 layer1 (9 times)$' few
    grep -q '^            (14 frames of libraries hidden: --all-frames)$' few
    grep -q ' ... caller unknown' all
    lacks hidden all
}

@test "names are demangled as --demangle says: simple in text, full in JSON" {
    simple=torch::autograd::generated::MmBackward0::apply
    for how in "" --demangle=simple; do
        "$report" top $how "$traces/python.zst" | grep -q " $simple (libtorch_cpu.so)$"
    done
    for how in "" --demangle=full; do
        "$report" dump --json $how "$traces/python.zst" | grep -q "\"$simple(std::vector"
    done
    "$report" top --demangle=full "$traces/python.zst" | grep -q " $simple(std::vector"
    "$report" dump --json --demangle=simple "$traces/python.zst" | grep -q "\"$simple\""
    # Noise is noise whatever it is called.
    "$report" top --demangle=no "$traces/python.zst" | grep -q ' _ZN5torch8autograd9generated11MmBackward05applyE'
    "$report" top --demangle=no "$traces/python.zst" | lacks 'CachingAllocator'
    status=0
    "$report" top --demangle=much "$traces/python.zst" 2>err || status=$?
    [ "$status" -eq 2 ]
}

@test "the program needs only the C library" {
    case ${SAN:-} in ?*) skip "a sanitizer's runtime is linked in" ;; esac
    readelf -d "$report" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' >needed
    [ -s needed ]
    lacks -v '^\(libc\|libm\|libdl\|libpthread\|librt\|ld-linux.*\)\.so' needed </dev/null
}

@test "a bad file exits with 3, a trace without its end with 4, a damaged one with 4 only if --strict" {
    echo nonsense >bad
    for file in bad absent.zst; do
        status=0
        "$report" "$file" 2>err || status=$?
        [ "$status" -eq 3 ]
        [ "$(wc -l <err)" -eq 1 ]
    done
    grep -q 'absent.zst: cannot be opened: No such file' err
    for option in "" --strict --json; do
        status=0
        "$report" $option "$traces/killed.zst" >/dev/null 2>&1 || status=$?
        [ "$status" -eq 4 ]
    done
    { cat "$traces/refused.zst" && head -c 64 /dev/zero; } >damaged.zst
    "$report" damaged.zst >/dev/null 2>&1
    status=0
    "$report" --strict damaged.zst >/dev/null 2>&1 || status=$?
    [ "$status" -eq 4 ]
    "$report" --strict "$traces/refused.zst" >/dev/null
}

@test "an output that cannot be written exits with 5" {
    [ -w /dev/full ] || skip "no /dev/full"
    for view in summary "dump --json" info; do
        status=0
        "$report" $view "$traces/refused.zst" >/dev/full 2>err || status=$?
        [ "$status" -eq 5 ]
        [ "$(wc -l <err)" -eq 1 ]
    done
}

@test "a reader that closes the pipe ends it silently" {
    for _ in 1 2 3; do cat "$traces/refused.zst"; done >/dev/null
    python3 - <<END
import sys
sys.path.insert(0, "$ROOT/tests/lib")
from mktrace import Trace
t = Trace()
for i in range(20000):
    t.event("note", i + 1, text="x")
t.flush(last=True)
open("long.zst", "wb").write(t.bytes())
END
    set +e
    "$report" dump --json long.zst 2>err | head -n 1 >/dev/null
    status=${PIPESTATUS[0]}
    set -e
    [ "$status" -eq 141 ] || [ "$status" -eq 0 ]
    [ ! -s err ]
}

@test "colours: only on a terminal, and as --color, NO_COLOR, CLICOLOR_FORCE and TERM say" {
    t=$traces/refused.zst
    "$report" "$t" | plain
    "$report" --color=always "$t" | escapes
    CLICOLOR_FORCE=1 "$report" "$t" | escapes
    FORCE_COLOR=1 "$report" "$t" | escapes
    CLICOLOR_FORCE=1 NO_COLOR=1 "$report" "$t" | plain
    NO_COLOR=1 "$report" --color=always "$t" | escapes
    "$terminal" "$report" "$t" | escapes
    "$terminal" "$report" --color=never "$t" | plain
    NO_COLOR=1 "$terminal" "$report" "$t" | plain
    NO_COLOR='' "$terminal" "$report" "$t" | escapes
    TERM=dumb "$terminal" "$report" "$t" | plain
}

@test "colours: only where the terminal's description has some, wherever that lies, in both of its formats, cut or not" {
    t=$traces/refused.zst
    for name in xterm xterm-256color screen tmux linux vt100 vt220 dumb; do
        colors=$(tput -T "$name" colors) || skip "no terminal database"
        if [ "$colors" -gt 0 ]; then want=escapes; else want=plain; fi
        TERM=$name "$terminal" "$report" "$t" | $want
    done
    TERM=nothing-of-this-name "$terminal" "$report" "$t" | escapes
    TERM=../x/xterm "$terminal" "$report" "$t" | escapes
    # xterm without colours hides the system's; tic writes one of more than 32767 colours with wide numbers.
    mkdir -p own home/.terminfo
    infocmp -x xterm | sed '1,/^xterm/d' >rest
    (echo 'xterm|none,'; sed 's/colors#[^,]*,//' rest) >none && (echo 'xterm-many|many,'; sed 's/colors#[^,]*,/colors#0x1000000,/' rest) >many
    tic -x -o own none && tic -x -o home/.terminfo many
    [ "$(TERMINFO=$PWD/own tput -T xterm colors)" -le 0 ] && [ "$(HOME=$PWD/home tput -T xterm-many colors)" -gt 32767 ]
    TERM=xterm TERMINFO=$PWD/own "$terminal" "$report" "$t" | plain
    TERM=xterm TERMINFO_DIRS=/nowhere::$PWD/own "$terminal" "$report" "$t" | plain
    TERM=xterm-many HOME=$PWD/home "$terminal" "$report" "$t" | escapes
    (echo 'xterm-many|few,'; sed 's/colors#[^,]*,/colors#0,/' rest) >few && tic -x -o home/.terminfo few
    TERM=xterm-many HOME=$PWD/home "$terminal" "$report" "$t" | plain
    # An entry that ends anywhere, or has any bytes, is read within its bounds.
    for size in 0 12 40 80; do
        head -c "$size" own/x/xterm >cut && mv cut own/x/xterm
        TERM=xterm TERMINFO=$PWD/own "$terminal" "$report" "$t" >out
        head -c 4000 /dev/urandom >own/x/xterm && printf '\032\001' | dd of=own/x/xterm conv=notrunc status=none
        TERM=xterm TERMINFO=$PWD/own "$terminal" "$report" "$t" >out
    done
}

@test "colours change nothing but colours" {
    "$report" --color=always "$traces/refused.zst" | sed 's/\x1b\[[0-9;]*m//g' >a
    "$report" "$traces/refused.zst" >b
    cmp a b
}

@test "the pager: only on a terminal, CUTRACE_PAGER before PAGER, not with --json" {
    t=$traces/refused.zst
    export CUTRACE_PAGER='sed s/^/paged:/' PAGER='sed s/^/other:/'
    "$terminal" "$report" "$t" | head -n 1 | grep -q '^paged:'
    "$report" "$t" | lacks 'paged:'
    "$terminal" "$report" --json "$t" | lacks 'paged:'
    unset CUTRACE_PAGER
    "$terminal" "$report" "$t" | head -n 1 | grep -q '^other:'
    CUTRACE_PAGER=cat "$terminal" "$report" "$t" | head -n 1 | grep -q 'OUT OF MEMORY on GPU 0'
    # the exit code is the report's, and the pager has shown all before it ends
    status=0
    PAGER='sleep 0.2; cat' "$terminal" "$report" --strict "$traces/killed.zst" >out 2>/dev/null || status=$?
    [ "$status" -eq 4 ]
    grep -q next: out
}

@test "lines fit the terminal, and are never cut in a pipe" {
    "$terminal" "$report" --color=never top "$traces/hostile.zst" >on
    [ "$(python3 -c 'print(max(len(l.rstrip("\n")) for l in open("on", encoding="utf-8")))')" -le 100 ]
    for view in stats "top --tree"; do
        "$terminal" "$report" --color=never $view "$traces/hostile.zst" >on
        [ "$(python3 -c 'print(max(len(l.rstrip("\n")) for l in open("on", encoding="utf-8")))')" -le 100 ]
    done
    "$report" oom "$traces/hostile.zst" | grep -q fffffffffffffffffffffffffffffff
}

@test "without UTF-8 the plot is ASCII" {
    LC_ALL=C "$report" timeline "$traces/refused.zst" >out
    LC_ALL=C lacks '[^ -~]' out
    grep -q '####' out
    "$report" timeline "$traces/refused.zst" | grep -q '█'
}

@test "the plot shows the highest value of each column, however short it was" {
    python3 - <<END
import sys
sys.path.insert(0, "$ROOT/tests/lib")
from mktrace import Trace
t = Trace()
t.info = {"device.0.total_bytes": str(1 << 30)}
for i in range(10000):
    t.event("alloc", 10**9 + i * 10**6, ptr=i << 30, bytes=1, device=0, result=0, space="device")
    if i == 5000:
        t.event("alloc", 10**9 + i * 10**6 + 1, ptr=1, bytes=1 << 30, device=0, result=0, space="device")
        t.event("free", 10**9 + i * 10**6 + 2, ptr=1)
t.flush(last=True)
open("spike.zst", "wb").write(t.bytes())
END
    LC_ALL=C "$report" timeline spike.zst >out
    sed -n 2p out | grep -q ':'
    "$report" timeline --json spike.zst | python3 -c '
import json, sys
columns = json.load(sys.stdin)["devices"][0]["columns"]
assert max(c["live_bytes_max"] for c in columns) == (1 << 30) + 5000, max(c["live_bytes_max"] for c in columns)'
}

@test "--units and --device" {
    t=$traces/refused.zst
    "$report" --units=si "$t" | grep -q '^OUT OF MEMORY on GPU 0: .* asked for 4.62 GB; '
    "$report" --units=bytes "$t" | grep -q '^OUT OF MEMORY on GPU 0: .* asked for 4617089848; '
    "$report" --device 1 "$traces/mixed.zst" | head -n 1 | grep -q 'GPU 1: 40.00 MiB'
    "$report" -d1 --json "$traces/mixed.zst" | python3 -c '
import json, sys
assert [d["ordinal"] for d in json.load(sys.stdin)["devices"]] == [1]'
    for view in summary oom top timeline frag; do
        "$report" $view --device=1 "$traces/mixed.zst" 2>&1 >/dev/null | lacks 'no event is of this GPU'
        run "$report" $view --device=7 "$traces/mixed.zst"
        [ "$status" -eq 2 ]
        [ "$output" = "cutrace-report: $traces/mixed.zst: --device=7: no event is of this GPU" ]
    done
}

@test "C++ names are demangled, and a name that stands for gigabytes is cut" {
    python3 - <<END
import sys
sys.path.insert(0, "$ROOT/tests/lib")
from mktrace import Trace
bomb = "_Z1fI" + "St4pairI" * 0 + "1A" + "E" + "v"
deep = "_Z1fSt4pairIiiES_I" + "".join("S%s_S%s_ES_I" % (c, c) for c in "0123456789") + "iiE"
names = ["_ZN3foo3barEv", "_ZN2at6native5emptyIfLi3EEEvRKNS_6TensorE", "_ZNSt6vectorIiSaIiEEixEm", "_ZN1AclEv", "_Zbroken",
         "plain_c", "_Z" + "1a" * 900, bomb, deep, "_Z1f" + "P" * 1000 + "i", "_ZN12_GLOBAL__N_14workEv"]
t = Trace()
for i, n in enumerate(names):
    t.event("alloc", 10 + i, ptr=1 + i, bytes=1, device=0, stack=[(n, "/x/lib.so")])
t.flush(last=True)
open("names.zst", "wb").write(t.bytes())
END
    "$report" dump --json names.zst | python3 -c '
import json, sys
names = [json.loads(l)["stack"][0]["name"] for l in sys.stdin]
assert names[0] == "foo::bar()", names[0]
assert names[1] == "void at::native::empty<float, 3>(at::Tensor const&)", names[1]
assert names[3] == "A::operator()()", names[3]
assert names[4] == "_Zbroken" and names[5] == "plain_c", names
assert all(len(n) < 5000 for n in names)'
    "$report" dump names.zst | grep -q ' at::native::empty (lib.so)$'
    "$report" dump names.zst | grep -q ' foo::bar (lib.so)$'
    "$report" dump names.zst | grep -q ' A::operator() (lib.so)$'
    "$report" dump names.zst | grep -q ' (anonymous namespace)::work (lib.so)$'
}
