# SPDX-License-Identifier: Apache-2.0
"""What happens to a log on its way into a bug report."""
import random
import re

TAGS = ["(EngineCore_0 pid=412) ", "(EngineCore_DP0 pid=97) ", "(VllmWorker rank=0 pid=88) ", "(Worker_TP0 pid=1203) ",
        "(VllmWorkerProcess pid=2211) ", "(RayWorkerWrapper pid=431, ip=10.1.2.3) ", "(VllmWorker TP1 pid=7) ",
        "(Worker_PP1_TP3 pid=99) ", "(APIServer pid=4) (EngineCore pid=5) "]


def tagged(text, rng):
    tag = rng.choice(TAGS)
    return "\n".join(tag + line for line in text.splitlines())


def levelled(text, rng):
    new = rng.random() < 0.5
    source = "[multiproc_executor.py:511]" if new else "multiproc_executor.py:511]"
    return "\n".join(f"ERROR 05-14 09:31:0{i % 10} {source} {line}" for i, line in enumerate(text.splitlines()))


def ranked(text, _):
    return "\n".join("[rank0]: " + line for line in text.splitlines())


def ray(text, rng):
    return "\n".join(f"(RayWorkerVllm pid={rng.randrange(100, 9999)}) {line} [repeated 7x across cluster]"
                     for line in text.splitlines())


def compose(text, _):
    return "\n".join("vllm-1  | " + line for line in text.splitlines())


def coloured(text, _):
    return "\n".join(f"\x1b[0;36m(EngineCore_DP0 pid=31)\x1b[0;0m \x1b[31m{line}\x1b[0m" for line in text.splitlines())


def coloured_as_text(text, _):
    return "\n".join(f"\\x1b[1;36m(EngineCore pid=31)\\x1b[0;0m {line}" for line in text.splitlines())


def gke(text, _):
    return "\n".join(f"2026-02-11T08:00:{i % 60:02}.120Z [resource.labels.pod_name: vllm-0] {line}"
                     for i, line in enumerate(text.splitlines()))


def ci(text, _):
    return "\n".join(f"[2026-02-24T20:21:{i % 60:02}Z] {line}" for i, line in enumerate(text.splitlines()))


def djl(text, _):
    return "\n".join("WARN  PyProcess W-252-model-stderr: " + line for line in text.splitlines())


def quoted(text, _):
    return "\n".join("> " + line for line in text.splitlines())


def wrapped(text, rng):
    """A terminal's copy: broken after so many letters, within words and numbers."""
    width = rng.choice([72, 80, 96, 100, 132])
    return "\n".join(line[i:i + width] for line in text.splitlines() for i in range(0, max(len(line), 1), width))


def filled(text, rng):
    """A mail program's copy: broken between words."""
    width, lines = rng.choice([68, 76]), []
    for line in text.splitlines():
        while len(line) > width and " " in line[1:width]:
            at = line.rindex(" ", 1, width)
            lines.append(line[:at])
            line = line[at + 1:]
        lines.append(line)
    return "\n".join(lines)


def one_line(text, _):
    return " ".join(line.strip() for line in text.splitlines())


def unindented(text, _):
    return "\n".join(line.strip() for line in text.splitlines())


def spaced(text, _):
    return "\n\n".join(text.splitlines())


def newest_first(text, _):
    return "\n".join(reversed(text.splitlines()))


def escaped(text, _):
    body = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return '{"log":"' + body + '\\n","stream":"stderr","time":"2026-03-01T10:00:00.1Z"}'


def crlf(text, _):
    return text.replace("\n", "\r\n")


def smart_quotes(text, _):
    text = re.sub(r"'(\w)", "\u2018\\1", text)
    return re.sub(r"`([^`]*)`", "\u201c\\1\u201d", text).replace("'", "\u2019").replace("  ", "\u00a0 ")


def in_html(text, _):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;").replace("'", "&#39;")


def rich(text, _):
    """In the frame of a library for tracebacks."""
    width = 98
    lines = [line[i:i + width] for line in text.splitlines() for i in range(0, max(len(line), 1), width)]
    return "\u256d" + "\u2500" * width + "\u256e\n" + "\n".join("\u2502 %-98s \u2502" % line for line in lines)


def with_control(text, rng):
    """Control characters and wrong UTF-8 in between, as a binary paste has them (as Latin-1)."""
    return "".join(c + (rng.choice("\x00\x07\x08\x9b\xff") if rng.random() < 0.01 and c == " " else "") for c in text)


LINES = [tagged, levelled, ranked, ray, compose, coloured, coloured_as_text, gke, ci, djl, quoted]
FORM = [wrapped, filled, one_line, unindented, spaced, newest_first, escaped, crlf, smart_quotes, in_html, rich, with_control]
ALL = LINES + FORM


def apply(text, names, seed):
    rng = random.Random(seed)
    for name in names:
        text = globals()[name](text, rng)
    return text
