#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a command's output as an SVG, for the README: draw-terminal.py COMMAND... <TEXT >PICTURE.svg

The text comes from standard input, so that the picture shows what the program really printed:
    COLUMNS=118 cutrace-report trace.zst | scripts/draw-terminal.py cutrace-report trace.zst >tools/report/summary.svg
"""
import sys
from xml.sax.saxutils import escape

COLUMN, LINE, MARGIN = 7.8, 18, 16

command = "$ " + " ".join(sys.argv[1:])
lines = [command] + sys.stdin.read().rstrip("\n").split("\n")
width = round(max(map(len, lines)) * COLUMN + 2 * MARGIN)
height = len(lines) * LINE + 2 * MARGIN
print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">')
print(f'<rect width="{width}" height="{height}" rx="8" fill="#16181d"/>')
print('<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="#d6dae0">')
for i, line in enumerate(lines):
    y = MARGIN + LINE * i + 13
    style = ' fill="#7fb4ff"' if i == 0 else ' fill="#ffb454" font-weight="bold"' if i == 1 else ""
    print(f'<text x="{MARGIN}" y="{y}" xml:space="preserve"{style}>{escape(line)}</text>')
print("</g>\n</svg>")
