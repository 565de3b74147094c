# SPDX-License-Identifier: Apache-2.0
"""Ways in which Python code calls into a library. Each calls `here` at every point whose stack is tested.

Runs in all interpreters from 3.9 on; code for newer ones is kept in strings."""
import asyncio
import concurrent.futures
import contextlib
import copy
import ctypes
import functools
import gc
import json
import random
import re
import sys
import threading
import types
import weakref

SHAPES = []


def shape(function):
    SHAPES.append(function)
    return function


# ---- calls --------------------------------------------------------------------------------------
@shape
def recursion(here):
    def down(n):
        if n:
            return down(n - 1)
        return here()
    for n in (0, 1, 2, 7, 15, 16, 17, 63, 200):
        down(n)


@shape
def kinds_of_calls(here):
    def positional(a, b=2, /, *rest, c=3, **more):
        here()
        return a
    positional(1)
    positional(1, 2, 3, c=4, d=5)
    positional(*[1, 2], **{"c": 1})
    (lambda: here())()
    (lambda x: lambda: here())(1)()
    functools.partial(positional, 1)()
    functools.reduce(lambda a, b: here() or a + b, [1, 2, 3])
    list(map(lambda x: here(), [1, 2]))
    list(filter(lambda x: here() or x, [1, 2]))
    sorted([3, 1, 2], key=lambda x: here() or x)
    min([3, 1, 2], key=lambda x: here() or x)
    max((here() or i for i in range(3)), default=0)
    any(here() for _ in range(2))
    re.sub("a", lambda m: here() or "b", "aba")
    json.dumps({1: object()}, default=lambda x: here() or "x")
    "".join(here() or "x" for _ in range(2))
    eval("here()", {"here": here})
    eval("(lambda: here())()", {"here": here})


@shape
def comprehensions(here):
    [here() for _ in range(2)]
    {here() for _ in range(2)}
    {i: here() for i in range(2)}
    list(here() for _ in range(2))
    [[here() for _ in range(2)] for _ in range(2)]
    [
        here()
        for i in range(2)
        if i
        or here()
    ]
    [(lambda: here())() for _ in range(1)]
    [y for x in [1]
     for y in [here()]]


@shape
def lines(here):
    here(
    )
    (
        here()
    )
    x = [
        1,
        here(),
        (2,
         here()),
    ]
    here() if not x else \
        here()
    a = here(); b = here()
    f"{here()}" \
        f"{here()}"
    for _ in (
        1,
        2,
    ):
        here()
    while (
        here()
        or a
    ):
        pass
    else:
        here()
    with contextlib.suppress(
        ValueError,
    ):
        here()
        if (a
            or b
                or here()):
            pass

    del a


@shape
def far_lines(here):
    for gap in (1, 126, 127, 128, 254, 255, 256, 300, 5000):
        source = "def f():\n x = (1,\n" + "\n" * gap + " here())\n here()\n" + "\n" * gap + " return (here(\n), \n" + \
            "\n" * gap + " 2)\n" + "f()\n"
        exec(compile(source, f"<far {gap}>", "exec"), {"here": here})


@shape
def long_functions(here):
    body = "".join(f" x{i % 50} = [{i}, {i}.5, 'text']\n" + (" here()\n" if i % 97 == 0 else "") for i in range(700))
    exec("def f():\n" + body + " here()\nf()\n", {"here": here})


# ---- classes ------------------------------------------------------------------------------------
class Meta(type):
    def __call__(cls, *arguments):
        arguments[0]()
        return super().__call__(*arguments)


class Thing(metaclass=Meta):
    def __init__(self, here):
        self.here = here
        here()

    def method(self):
        self.here()

    @classmethod
    def of_class(cls, here):
        here()

    @staticmethod
    def static(here):
        here()

    @property
    def value(self):
        return self.here()

    def __getattr__(self, name):
        if name == "missing":
            self.here()
        raise AttributeError(name)

    def __add__(self, other):
        self.here()
        return self

    def __lt__(self, other):
        self.here()
        return False

    def __eq__(self, other):
        self.here()
        return True

    def __hash__(self):
        self.here()
        return 1

    def __getitem__(self, key):
        self.here()
        return key

    def __contains__(self, key):
        return bool(self.here())

    def __iter__(self):
        self.here()
        return iter([1])

    def __len__(self):
        self.here()
        return 1

    def __enter__(self):
        self.here()

    def __exit__(self, *_):
        self.here()

    def __repr__(self):
        self.here()
        return "thing"

    def __call__(self):
        self.here()

    def __deepcopy__(self, memo):
        self.here()
        return self

    class Inner:
        def method(self, here):
            def local():
                here()
            local()


@shape
def classes(here):
    thing = Thing(here)
    thing.method()
    Thing.of_class(here)
    thing.static(here)
    thing.value
    hasattr(thing, "missing")
    thing + thing
    sorted([thing, thing])
    {thing: 1}[thing]
    thing[1]
    1 in thing
    [*thing]
    with thing:
        here()
    f"{thing!r}"
    thing()
    copy.deepcopy([thing])
    Thing.Inner().method(here)

    class Local:
        here()
        x = [here() for _ in range(2)]

        def __init_subclass__(cls, **more):
            here()

        def __set_name__(self, owner, name):
            here()

        def __del__(self):
            here()

    class Below(Local, more=1):
        member = Local()
    Below()
    types.new_class("Made", (), {}, lambda space: here())


@shape
def finalizers(here):
    class Gone:
        def __del__(self):
            here()

    class Ring:
        pass
    Gone()
    x = Gone()
    x = None
    thing = Ring()
    weakref.finalize(thing, here)
    del thing
    ring = Ring()
    ring.itself, ring.gone = ring, Gone()
    del ring
    gc.collect()
    return x


@shape
def collected(here):
    """A collection runs other code wherever it comes, in 3.11 before the first line of a function, too."""
    class Ring:
        def __init__(self):
            self.itself = self

        def __del__(self):
            here()

    def cells(a, b, c):
        x = [a]
        return lambda: (a, b, c, x)
    before = gc.get_threshold()
    for threshold in range(1, 8):
        for _ in range(6):
            gc.collect()
            Ring()
            gc.set_threshold(threshold)
            cells(1, 2, 3)()
            gc.set_threshold(*before)


# ---- decorators and contexts --------------------------------------------------------------------
def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments, **more):
        return function(*arguments, **more)
    return wrapper


@shape
@decorated
@decorated
def decorators(here):
    @functools.lru_cache(maxsize=None)
    def cached(n):
        here()
        return n and cached(n - 1)
    cached(3)

    @functools.singledispatch
    def one(x):
        here()
    one(1)

    @contextlib.contextmanager
    def context():
        here()
        try:
            yield here()
        finally:
            here()
    with context():
        here()
    with contextlib.ExitStack() as stack:
        stack.enter_context(context())
        stack.callback(here)

    @decorated
    @(lambda f: here() or f)
    def f():
        here()
    f()


# ---- generators and coroutines --------------------------------------------------------------------
@shape
def generators(here):
    def plain(n):
        try:
            while n:
                n -= 1
                here()
                yield n
        except ValueError:
            here()
            yield -1
        finally:
            here()

    def outer(n):
        here()
        got = yield from plain(n)
        here()
        return got
    list(plain(3))
    list(outer(3))
    g = outer(2)
    next(g)
    g.throw(ValueError)
    g.close()
    g = plain(2)
    next(g)
    del g
    deep = plain(1)
    for _ in range(30):
        deep = (lambda inner: (x for x in inner))(deep)
    list(deep)

    def inside():
        yield [x for x in plain(2)]
    next(inside())


@shape
def coroutines(here):
    @types.coroutine
    def pause():
        here()
        yield
        here()

    async def leaf(n):
        here()
        if n:
            await leaf(n - 1)
        await pause()
        here()

    async def numbers():
        for i in range(2):
            here()
            await pause()
            yield i

    class Context:
        async def __aenter__(self):
            here()
            await pause()

        async def __aexit__(self, *_):
            here()

    async def all_of_it():
        await leaf(3)
        async for _ in numbers():
            here()
        async with Context():
            here()
        [here() async for _ in numbers()]
        [x async for x in numbers()
         if here()]

    c = all_of_it()
    with contextlib.suppress(StopIteration):
        while True:
            c.send(None)


@shape
def tasks(here):
    async def work(n):
        here()
        await asyncio.sleep(0)
        here()
        if n:
            await asyncio.gather(work(n - 1), work(0))
        return n

    async def main():
        loop = asyncio.get_running_loop()
        loop.call_soon(here)
        loop.call_later(0, here)
        await asyncio.gather(*(work(i) for i in range(4)))
        await loop.run_in_executor(None, here)
        await asyncio.wait_for(work(1), 10)
        task = loop.create_task(work(1))
        task.add_done_callback(lambda t: here())
        await task
        await asyncio.sleep(0)
    asyncio.run(main())


# ---- exceptions -----------------------------------------------------------------------------------
@shape
def exceptions(here):
    def fails(n):
        try:
            if n:
                fails(n - 1)
            else:
                here()
                raise ValueError
        except ValueError:
            here()
            raise
        finally:
            here()
    try:
        fails(3)
    except ValueError as e:
        here()
        try:
            raise KeyError from e
        except (IndexError, KeyError):
            here()
    try:
        try:
            1 / 0
        finally:
            here()
    except ZeroDivisionError:
        [here() for _ in range(2)]
    else:
        here()
    try:
        assert here(), \
            here()
    except AssertionError:
        here()

    class Text(Exception):
        def __str__(self):
            here()
            return "text"
    str(Text())


# ---- C in between ---------------------------------------------------------------------------------
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))


@shape
def callbacks(here):
    def compare(a, b):
        here()
        return a[0] - b[0]
    numbers = (ctypes.c_int * 4)(3, 1, 2, 0)
    for library in (ctypes.CDLL(None), ctypes.PyDLL(None)):
        library.qsort(numbers, ctypes.c_size_t(4), ctypes.c_size_t(4), COMPARE(compare))

    def outer(a, b):
        ctypes.CDLL(None).qsort(numbers, ctypes.c_size_t(2), ctypes.c_size_t(4), COMPARE(compare))
        return 0
    ctypes.CDLL(None).qsort(numbers, ctypes.c_size_t(2), ctypes.c_size_t(4), COMPARE(outer))


@shape
def traced(here):
    def f(n):
        here()
        return n and f(n - 1)

    def trace(frame, event, argument):
        return trace
    before = sys.gettrace(), sys.getprofile()
    sys.setprofile(lambda *_: None)
    f(2)
    sys.settrace(trace)
    f(2)
    [here() for _ in range(2)]
    sys.settrace(before[0])
    sys.setprofile(before[1])
    f(1)
    inside = []

    def calls(frame, event, argument):
        if not inside and frame.f_code is f.__code__:
            inside.append(1)
            here()
            inside.clear()
        return calls
    sys.settrace(calls)
    try:
        f(2)
    finally:
        sys.settrace(before[0])


# ---- names ----------------------------------------------------------------------------------------
@shape
def names(here):
    space = {"here": here}
    exec("def größe(): here()\ngröße()\ndef 大きさ(): größe()\n大きさ()\n"
         "class Ключ:\n def 𐌰𐌱(self): 大きさ()\nКлюч().𐌰𐌱()", space)
    code = space["größe"].__code__
    for name in ("a b<c>", "", "x" * 300, "é" * 300, "😀" * 10, "a😀b", "\u4e2d" * 2000, "tab\t",
                 "\ud800alone", "\udcff\udc80bytes", "x" * 5000, "y" * 4094 + "é"):
        more = {"co_qualname": name} if sys.version_info >= (3, 11) else {}
        types.FunctionType(code.replace(co_name=name, **more), space)()
        types.FunctionType(code.replace(co_filename="/" + name), space)()

    class Str(str):
        pass
    types.FunctionType(code.replace(co_filename=Str("/derived/é")), space)()
    for line in (1, 255, 65536, 2 ** 30):
        types.FunctionType(code.replace(co_firstlineno=line), space)()


@shape
def generated(here):
    """Code that comes and goes at the same addresses, as torch.fx makes it."""
    for n in range(40):
        name = f"forward_{n % 7}"
        space = {"here": here}
        exec(compile(f"def {name}(x):\n" + "\n" * (n % 5) + f" return [x,\n here()]\n{name}(1)",
                     f"<eval_with_key>.{n % 11}", "exec"), space)
        del space


@shape
def same_names(here):
    """The same file, function and length of tables; only lines differ."""
    for n in range(40):
        gaps = ["\n" * (1 + (n >> i & 1)) for i in range(5)]
        space = {"here": here}
        exec("def f():\n x = 1" + gaps[0] + " y = 2" + gaps[1] + " z = 3" + gaps[2] + " here()" + gaps[3] + " here()" +
             gaps[4] + " here()\nf()\n", space)
        del space


@shape
def same_names_below(here):
    """The same behind many other functions: what is remembered of those is not of this one."""
    chain = {"g150": here}
    exec("".join(f"def g{i}(): g{i + 1}()\n" for i in range(150)), chain)
    for n in range(20):
        gaps = ["\n" * (1 + (n >> i & 1)) for i in range(4)]
        space = {"below": chain["g0"]}
        exec("def f():\n x = 1" + gaps[0] + " y = 2" + gaps[1] + " below()" + gaps[2] + " below()" + gaps[3] + " below()\nf()\n", space)
        del space


# ---- what only newer versions have ------------------------------------------------------------------
NEWER = {
    (3, 10): """
def f(x):
    match x:
        case {"a": [1, *_]} if here(): pass
        case [_, _]:
            here()
        case str() | int():
            here()
f([1, 2]); f(1); f({"a": [1]})
with (contextlib.nullcontext() as a,
      contextlib.nullcontext(here()) as b):
    here()
""",
    (3, 11): """
try:
    raise ExceptionGroup("g", [ValueError(), KeyError()])
except* ValueError:
    here()
except* KeyError:
    here()
""",
    (3, 12): """
def f[T](x: T) -> T:
    here()
    return x
type Alias[T] = list[here() or T]
class C[T]:
    here()
    def m(self): here()
f(1); C().m(); Alias.__value__
""",
}


@shape
def newer(here):
    for version, source in NEWER.items():
        if sys.version_info >= version:
            exec(compile(source, f"<{version}>", "exec"), {"here": here, "contextlib": contextlib})


# ---- threads ----------------------------------------------------------------------------------------
def in_thread(function, *arguments):
    """Runs in a new thread; what is raised there is raised here."""
    raised = []

    def run():
        try:
            function(*arguments)
        except BaseException as e:
            raised.append(e)
    t = threading.Thread(target=run)
    t.start()
    t.join()
    if raised:
        raise raised[0]


@shape
def threads(here):
    in_thread(here)
    in_thread(recursion, here)
    in_thread(in_thread, lambda: here())


@shape
def pool(here):
    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        for f in [executor.submit(kinds_of_calls, here) for _ in range(8)]:
            f.result()
        list(executor.map(lambda x: here(), range(16)))


# ---- programs drawn by chance -------------------------------------------------------------------------
def drawn(dice):
    """The source of a module with a function `start(here)`: nested blocks, with lines broken anywhere."""
    out = []

    def gap():
        return "\n" * dice.choice([1, 1, 1, 1, 2, 3, 20, 140 if not dice.randrange(20) else 1])

    def call(indent, functions):
        what = "here()"
        for _ in range(dice.choice([0, 0, 1, 1, 2, 3])):
            what = dice.choice(["(lambda: {})()", "[{} for _ in 'ab'][0]", "({},)[0]", "print and {}",
                                "next(x for x in [{}])",
                                "(\n{})", "(\n\n{}\n)", "[1,\n{}][1]", "{{1:\n{}}}[1]",
                                "sorted([1], key=lambda x: {} or 1)",
                                "print and (1,\n2,{})", "dict(a={})", "list(map(lambda x: {}, 'a'))"]).format(what)
        if functions and dice.random() < 0.4:
            what = f"{dice.choice(functions)}(here)"
        out.append(f"{indent}{dice.choice(['', 'x = ', 'x = y = ', 'not '])}{what}{gap()}")

    def block(indent, depth, functions):
        for _ in range(dice.randrange(1, 4)):
            kind = dice.randrange(9 if depth else 1)
            deeper = indent + " "
            heads = {1: "if not x:", 2: "for _ in range(2):", 3: "try:", 4: "with suppress(ValueError):", 5: "def f():",
                     6: "class C:", 7: "while x:", 8: "def g():"}
            if kind:
                out.append(f"{indent}{heads[kind]}{gap()}" + (f"{deeper}x = y = None\n" if kind in (5, 6, 8) else ""))
                block(deeper, depth - 1, [] if kind == 6 else functions)
            if kind == 1:
                out.append(f"{indent}else:\n")
                block(deeper, depth - 1, functions)
            elif kind == 3:
                out.append(f"{indent}finally:{gap()}")
                block(deeper, 0, functions)
            elif kind == 5:
                out.append(f"{indent}f(){gap()}")
            elif kind == 7:
                out.append(f"{deeper}break\n")
            elif kind == 8:
                out.append(f"{deeper}yield {gap()}{indent}[_ for _ in g()]{gap()}")
            call(indent, functions)
    functions = []
    for i in range(dice.randrange(1, 5)):
        name = dice.choice(["f", "größe", "大", "step", "λ"]) + str(i)
        out.append(f"def {name}(here):{gap()} x = y = None\n")
        block(" ", dice.randrange(4), functions)
        functions.append(name)
    out.append("def start(here):\n x = 0\n")
    block(" ", 2, functions)
    return "from contextlib import suppress\n" + "".join(out)


def by_chance(here, seed):
    dice = random.Random(seed)
    source = drawn(dice)
    space = {}
    exec(compile(source, f"<drawn {seed % 100}>", "exec"), space)
    space["start"](here)
