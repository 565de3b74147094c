# SPDX-License-Identifier: Apache-2.0
"""The frames that the library finds, against those that Python itself reports at the same point.

Runs in all interpreters from 3.9 on."""
import ctypes
import os
import sys
import threading

MOST = 2048
PYTHON = 1 << 63
HAS_QUALNAME = sys.version_info >= (3, 11)


def truth(frame):
    """(function, file, line) of each frame from this one outwards, as Python has them."""
    out = []
    while frame:
        code = frame.f_code
        out.append((code.co_qualname if HAS_QUALNAME else code.co_name, code.co_filename, frame.f_lineno or 0))
        frame = frame.f_back
    return out


def written(name):
    """A name as a trace has it: UTF-8, what is no character replaced, cut."""
    raw = "".join("\ufffd" if "\ud800" <= c <= "\udbff" or "\udc00" <= c < "\udc80" or "\udcff" < c <= "\udfff"
                  else c for c in name).encode("utf-8", "surrogateescape")
    return raw if len(raw) <= 4095 else raw[:4095].decode("utf-8", "ignore").encode()


class Wrong(Exception):
    """The library's frames are not Python's."""


class Walker:
    def __init__(self, library=os.environ.get("WALK_LIBRARY"), keep_gil=False):
        self.lib = (ctypes.PyDLL if keep_gil else ctypes.CDLL)(library)
        self.lib.walk.restype = self.lib.walk_on.restype = ctypes.c_long
        self.lib.walk_text.restype = ctypes.c_void_p
        assert self.lib.walk_begin(), "no interpreter was found"
        self.local = threading.local()
        self.texts = {}
        os.register_at_fork(after_in_child=self.texts.clear)  # a child begins with no texts
        self.names = {}
        self.stacks = self.frames = self.deepest = 0

    def text(self, number):
        if number not in self.texts:
            function, file = ctypes.c_uint32(), ctypes.c_uint32()
            at = self.lib.walk_text(ctypes.c_uint32(number), ctypes.byref(function), ctypes.byref(file))
            assert at, f"text {number}"
            both = ctypes.string_at(at, function.value + file.value)
            self.texts[number] = both[:function.value], both[function.value:]
        return self.texts[number]

    def name(self, text):
        if text not in self.names:
            self.names[text] = written(text)
        return self.names[text]

    def walk(self, most=MOST):
        """The number of the caller's frames (-1: there are more), their words, and their anchors."""
        # (Bytes have an address without a type of their own, which ctypes would make for an array.)
        words, anchors, hashed = bytes(8 * most), bytes(8 * most), ctypes.c_uint64()
        n = self.lib.walk(words, anchors, ctypes.byref(hashed), ctypes.c_long(most))
        if n == -2:
            raise Wrong(f"the hash {hashed.value:#x} was another stack's")
        end = 8 * (n if n >= 0 else most)
        return n, [*memoryview(words[:end]).cast("Q")], [*memoryview(anchors[:end]).cast("Q")]

    def look(self):
        """The frames of the caller of its caller: [(function, file, line)], [anchor]."""
        n, words, anchors = self.walk()
        assert n != -1, "more than there is room for"
        frames = []
        for word in words[3:]:
            assert word & PYTHON, f"{word:#x}"
            frames.append((*self.text(word & 0xFFFFFFFF), word >> 32 & 0x7FFFFFFF))
        return frames, anchors[3:]

    def check(self):
        """What is called in all places: the frames of its caller."""
        found, anchors = self.look()
        want = [(self.name(function), self.name(file), line) for function, file, line in truth(sys._getframe().f_back)]
        self.stacks += 1
        self.frames += len(want)
        self.deepest = max(self.deepest, len(want))
        if found != want:
            for i, (a, b) in enumerate(zip(found, want)):
                if a != b:
                    raise Wrong(f"frame {i}: {a}, Python has {b}")
            raise Wrong(f"{len(found)} frames, Python has {len(want)}")
        self.check_anchors(anchors)

    def stack(self):
        """Bounds of the thread's own."""
        if not hasattr(self.local, "stack"):
            low, high = ctypes.c_uint64(), ctypes.c_uint64()
            self.lib.walk_stack(ctypes.byref(low), ctypes.byref(high))
            self.local.stack = low.value, high.value
        return self.local.stack

    def check_anchors(self, anchors):
        """Outer activations of the loop lie further up in the stack."""
        at = [a for a in anchors if a > 1]
        low, high = self.stack()
        if at != sorted(set(at)) or any(not low <= a < high for a in at):
            raise Wrong(f"anchors {at}, stack {low} {high}")
        if anchors and not anchors[-1]:
            raise Wrong("the outermost frame has no anchor")
