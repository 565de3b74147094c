# SPDX-License-Identifier: Apache-2.0
"""Programs that compare the library's frames with Python's: cases.py NAME STACKS. Each prints its counts."""
import atexit
import contextlib
import ctypes
import os
import sys
import threading
import time
import traceback

import shapes
from walker import Walker

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def drawn(w, most, seed=1):
    """Programs drawn by chance, until so many stacks more were compared."""
    most += w.stacks
    while w.stacks < most:
        shapes.by_chance(w.check, seed)
        seed += 1


def all_shapes(w, most):
    sys.setrecursionlimit(5000)

    def deep(n):
        return deep(n - 1) if n else w.check()
    deep(1000)
    for n, s in enumerate(shapes.SHAPES):
        s(w.check)
        drawn(w, most // len(shapes.SHAPES), n << 20)


@case
def shapes_one_by_one(most):
    """All shapes; the GIL is released around each call."""
    w = Walker()
    all_shapes(w, most)
    return w


@case
def with_the_gil(most):
    w = Walker(keep_gil=True)
    all_shapes(w, most)
    return w


@case
def beside_a_spinning_thread(most):
    """Another thread runs Python at full speed: code and frames come and go."""
    w, stop = Walker(), []

    def spin():
        n = 0
        while not stop:
            n += 1
            space = {}
            exec(f"def f{n % 100}(n):\n return n and f{n % 100}(n - 1)\nf{n % 100}(20)", space)
            del space
    sys.setswitchinterval(1e-4)  # each comparison waits that long for the GIL
    t = threading.Thread(target=spin)
    t.start()
    try:
        all_shapes(w, most)
    finally:
        stop.append(1)
        t.join()
    return w


@case
def in_eight_threads(most):
    w, raised = Walker(), []
    w.look()  # makes the tables: who comes in the midst of that goes without a text

    def work(number):
        try:
            drawn(w, most, number << 24)  # all together, because they share what is counted
            shapes.generated(w.check)
        except BaseException as e:
            raised.append(e)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if raised:
        raise raised[0]
    return w


@case
def in_forked_children(most):
    """Other threads walk while the process forks; the child's stacks are its own."""
    w, stop = Walker(), []
    w.look()

    def work():
        while not stop:
            drawn(w, 10, 7)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    try:
        for n in range(12):
            pid = os.fork()
            if not pid:
                status = 1
                try:
                    drawn(w, max(most // 12, 10), 1000 + n)
                    shapes.in_thread(w.check)
                    status = 0
                except BaseException:
                    traceback.print_exc()
                os._exit(status)
            assert os.waitpid(pid, 0)[1] == 0, f"child {n}"
    finally:
        stop.append(1)
        for t in threads:
            t.join()
    return w


@case
def at_most_so_many(most):
    """A stack that is deeper than there is room for: the innermost frames, and a sign that there are more."""
    w = Walker()

    def deep(n):
        if n:
            return deep(n - 1)
        for room in (2, 5, 31, 32, 33, 34, 64):
            found, words, _ = w.walk(room)
            assert found == (-1 if room < 34 else 34), (room, found)
            frame = sys._getframe().f_back
            for line in [word >> 32 & 0x7FFFFFFF for word in words[2:]]:
                assert line == frame.f_lineno, (room, line)
                frame = frame.f_back
            w.stacks += 1
        return None
    base = len(list(iter_frames(sys._getframe())))
    deep(33 - base - 1)
    return w


def iter_frames(frame):
    while frame:
        yield frame
        frame = frame.f_back


@case
def subinterpreter(most):
    """Inside another interpreter: its own frames since 3.12, before that those of the main one around it."""
    source = """
import sys
sys.path[:] = PATH
import os
os.environ["WALK_LIBRARY"] = LIBRARY
import walker
w = walker.Walker()
def f(n):
    if n:
        return f(n - 1)
    if sys.version_info >= (3, 12):
        w.check()
    else:
        _, words, _ = w.walk()
        assert b"subinterpreter" in [w.text(word & 0xFFFFFFFF)[0] for word in words], words
for n in range(20):
    f(n)
    exec(f"def g{n % 3}(): f(1)\\ng{n % 3}()", {"f": f})
"""
    source = source.replace("PATH", repr(sys.path)).replace("LIBRARY", repr(os.environ["WALK_LIBRARY"]))
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
        kinds = [{"config": "isolated"}, {"config": "legacy"}]

        def run(number, code):
            failed = interpreters.exec(number, code)
            assert not failed, failed
    else:
        import _xxsubinterpreters as interpreters
        kinds = [{"isolated": False}]

        run = interpreters.run_string
    w = Walker()
    for name in "abcd":  # the same code but for one name, at the same places in memory
        for kind in kinds:
            number = interpreters.create(*kind.values()) if "config" in kind else interpreters.create(**kind)
            run(number, source.replace("FUNCTION", name))
            w.check()
            interpreters.destroy(number)
            w.check()
            drawn(w, 20)
    return w


@case
def at_exit(most):
    """The main thread's stacks while Python is finalised, other threads' never: daemon threads walk all the time."""
    w = Walker()
    for _ in range(3):
        threading.Thread(target=w.lib.walk_on, args=(ctypes.c_long(0),), daemon=True).start()

    class Last:
        def __del__(self):
            w.check()
    sys.modules["last"] = Last()
    atexit.register(w.check)
    drawn(w, 20)
    atexit.register(lambda: (w.check(), drawn(w, 20)))
    time.sleep(0.02)
    return w


@case
def gate_forgotten(most):
    """Who asks atexit to forget all gets the gate back at once."""
    w = Walker()
    w.check()
    for _ in range(3):
        sum(range(1000))
        assert atexit._ncallbacks() >= 1, "nothing is registered"
        atexit._clear()
        assert atexit._ncallbacks() <= 1
    return at_exit(most)


@case
def numpy(most):
    import numpy
    w = Walker()
    numpy.vectorize(lambda x: w.check() or x)(numpy.arange(5))
    numpy.frompyfunc(lambda x: w.check() or x, 1, 1)(numpy.arange(5))
    numpy.apply_along_axis(lambda x: w.check() or x, 0, numpy.ones((3, 3)))
    numpy.fromiter((w.check() or i for i in range(5)), int)

    class Array(numpy.ndarray):
        def __array_finalize__(self, other):
            w.check()
    numpy.ones(3).view(Array) + 1
    return w


@case
def greenlets(most):
    import greenlet
    w = Walker()

    def work(n):
        for i in range(3):
            w.check()
            if n:
                greenlet.greenlet(work).switch(n - 1)
            main.switch()
            w.check()
    main = greenlet.getcurrent()
    all_of_them = [greenlet.greenlet(work) for _ in range(5)]
    for _ in range(4):
        for n, g in enumerate(all_of_them):
            if not g.dead:
                g.switch(*([n] if not g else []))
            w.check()
    shapes.in_thread(w.check)
    return w


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        result = CASES[sys.argv[1]](int(sys.argv[2]))
    print(result.stacks, result.frames, flush=True)
