#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether `cutrace-report fit` is right: real vLLM with each value that it calls safe has to serve, with steps of the
largest size, and with the first value that it says fails it must not.

Usage: test_fit.py [WORD...] [--FLAG...]    the cases whose names have one of the words; of these settings alone
Needs real vLLM (scripts/fetch-vllm.py). What was tried goes to stdout."""
import concurrent.futures
import dataclasses
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import case, check, main, note, report, skip_all  # noqa: E402

import bed  # noqa: E402
from cases import FULL_GRAPHS, Case  # noqa: E402

WORDS = [w for w in sys.argv[1:] if not w.startswith("--")]
ONLY = [w for w in sys.argv[1:] if w.startswith("--")]
if not WORDS and not os.environ.get("CUTRACE_VLLM"):
    skip_all("`make check-vllm-fit` runs it: vLLM to fetch, and a quarter of an hour")
try:
    BED = bed.Bed()
except bed.Unavailable as why:
    skip_all(str(why))
# A short answer, which is what the recorded run serves, and then as much as a step takes.
SHORT = ["generate", {"requests": 2}]
EVERYTHING = {"max_num_seqs": 128, "max_num_batched_tokens": 8192, "gpu_memory_utilization": 0.9}


@dataclasses.dataclass
class Recorded:
    """A run, the device that is asked about (None: the same), and what is tried of each setting."""
    run: Case
    mib: int | None
    tried: dict


RUNS = [
    Recorded(Case("same-device", "", arguments=EVERYTHING, steps=[SHORT]), None,
             {"--gpu-memory-utilization": "both", "--max-model-len": "both", "--max-num-batched-tokens": "safe",
              "--max-num-seqs": "safe"}),
    Recorded(Case("graphs", "", arguments={**EVERYTHING, **FULL_GRAPHS}, steps=[SHORT],
                  environment={"SIM_GRAPH_KB": 16384}), None, {"--gpu-memory-utilization": "both"}),
    Recorded(Case("smaller-device", "", arguments=EVERYTHING, steps=[SHORT]), 15360,
             {"--gpu-memory-utilization": "both", "--max-model-len": "both"}),
    Recorded(Case("cache-is-set", "", arguments={**EVERYTHING, "kv_cache_memory_bytes": 4 << 30}, steps=[SHORT]), None,
             {"--kv-cache-memory-bytes": "both"}),
]


def largest_steps(arguments):
    """Prompts that fill steps of the largest size, whatever the settings are: of changing sizes, as users send them."""
    length = min(1024, arguments["max_model_len"] - 8)
    tokens = arguments["max_num_batched_tokens"]
    return [["generate", {"requests": tokens * part // length // 8 + 1, "prompt": length, "tokens": 2}]
            for part in (5, 8, 3, 16, 7)]


def serves(name, row, flag, value, environment):
    arguments = {"max_model_len": 2048, **row.arguments, flag[2:].replace("-", "_"): value}
    environment = {**environment, "VLLM_ALLOW_LONG_MAX_MODEL_LEN": 1}  # (beyond what the model's config has)
    if flag == "--gpu-memory-utilization":
        arguments["max_model_len"] = 128  # (whether one long request fits the cache is another question)
    changed = dataclasses.replace(row, arguments=arguments, steps=[SHORT, *largest_steps(arguments)],
                                  environment={**row.environment, **environment})
    run = BED.serve(f"fit-{name}", changed)
    done = not run.status and re.search(r"^DONE", run.log, re.M) is not None
    note(f"{name}: {flag} {value}: {'serves' if done else 'fails'}")
    return done


def value_of(flag, text):
    return float(text) if flag == "--gpu-memory-utilization" else int(text)


def judge(recorded):
    row = recorded.run
    first = BED.serve(f"fit-{row.name}-first", row)
    check(re.search(r"^DONE", first.log, re.M), "the recorded run did not serve")
    more = [f"--capacity={recorded.mib}MiB"] if recorded.mib else []
    environment = {"SIM_MEM_MB": recorded.mib} if recorded.mib else {}
    shown = json.loads(report("fit", "--json", "--log", first.path("log.txt"), *more, first.traces[0])[1])
    settings = {s["flag"]: s for s in shown["devices"][0]["vllm"]["bounds"]}
    problems = []
    for flag, what in recorded.tried.items():
        if ONLY and flag not in ONLY:
            continue
        s = settings[flag]
        note(f"{row.name}: {flag} {s['recorded']}: safe {s['safe']}, fails {s['fails']}")
        if not s["safe"] or (what == "both" and not s["fails"]):
            problems.append(f"{flag}: no value is named: {s}")
            continue
        if not serves(row.name, row, flag, value_of(flag, s["safe"]), environment):
            problems.append(f"{flag}: {s['safe']} does not serve")
        if what == "both" and serves(row.name, row, flag, value_of(flag, s["fails"]), environment):
            problems.append(f"{flag}: {s['fails']} serves")
    return problems


wanted = [r for r in RUNS if not WORDS or any(w in r.run.name for w in WORDS)]
pool = concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or 1))
judged = {r.run.name: pool.submit(judge, r) for r in wanted}
for each in wanted:
    case(f"{each.run.name}: the safe values serve, and those beyond do not")(
        lambda name=each.run.name: judged[name].result())
main()
