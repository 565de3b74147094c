# SPDX-License-Identifier: Apache-2.0
"""Runs inside gdb: compares the words that capture_stop is called with with gdb's own frames. Prints "same N different N"."""
import gdb

gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set breakpoint pending on")
gdb.execute("set backtrace past-main on")
gdb.execute("set backtrace past-entry on")
gdb.execute("handle SIGUSR1 SIGUSR2 nostop noprint pass")
gdb.execute("break capture_stop")
gdb.execute("run")
counts = [0, 0]
while gdb.selected_inferior().pid and sum(counts) < 200:
    frame = gdb.newest_frame()
    words, n = int(frame.read_register("rdi")), int(frame.read_register("rsi"))
    memory = gdb.selected_inferior().read_memory(words, 8 * n).tobytes()
    ours = [int.from_bytes(memory[i:i + 8], "little") for i in range(0, 8 * n, 8)]
    theirs = []
    while frame:
        library = gdb.solib_name(frame.pc()) or ""
        # (frames that gdb infers have no return address: inlined functions, and those that ended in a jump)
        if not library.endswith("/libcapture.so") and frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            theirs.append(frame.pc())
        frame = frame.older()
    if ours[-1] >> 63:  # the caller is not known; gdb goes on by guessing
        ours.pop()
        theirs = theirs[:len(ours)]
    counts[ours != theirs] += 1
    if ours != theirs and counts[1] < 4:
        print([hex(x) for x in ours], [hex(x) for x in theirs], sep="\n")
    gdb.execute("continue", to_string=True)
print(f"same {counts[0]} different {counts[1]}")
if gdb.selected_inferior().pid:
    gdb.execute("kill")
