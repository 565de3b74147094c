# SPDX-License-Identifier: Apache-2.0
"""An engine and its workers, as model servers start them: model_server.py fork|spawn|forkserver HOW-THEY-END.

API server -> engine -> two workers, all through multiprocessing. Ends: close (they are asked to), kill (the engine
kills its workers, as an executor does), group (the server kills its group), wait (until another process kills them).
"""
import multiprocessing
import os
import signal
import sys
import time


def worker(number, pipe):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import ctypes_calls
    ctypes_calls.begin()
    ctypes_calls.some(200 + number)
    pipe.send(os.getpid())
    while not pipe.poll(0.001):
        ctypes_calls.some(20)
    ctypes_calls.some(10)


def engine(method, how, up):
    context = multiprocessing.get_context(method)
    pipes, workers = [], []
    for number in range(2):
        here, there = context.Pipe()
        p = context.Process(target=worker, args=(number, there), daemon=True, name=f"Worker_TP{number}")
        p.start()
        pipes.append(here)
        workers.append(p)
    for pipe in pipes:
        pipe.recv()
    up.send("ready")
    if how == "wait":
        time.sleep(600)
    time.sleep(0.1)
    for pipe, p in zip(pipes, workers):
        if how == "kill":
            os.kill(p.pid, signal.SIGKILL)
        else:
            pipe.send("stop")
    for p in workers:
        p.join()
    bad = [p.exitcode for p in workers if p.exitcode != (-9 if how == "kill" else 0)]
    sys.exit(f"workers ended with {bad}" if bad else 0)


def main():
    method, how = sys.argv[1:]
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    p = context.Process(target=engine, args=(method, how, there))
    p.start()
    print(here.recv(), flush=True)
    if how == "group":
        time.sleep(0.1)
        os.killpg(0, signal.SIGKILL)
    p.join()
    sys.exit(p.exitcode)


if __name__ == "__main__":
    main()
