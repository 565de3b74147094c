# SPDX-License-Identifier: Apache-2.0
"""Medians with their intervals, and the table of what was wanted and what was measured."""
import random
import statistics
import textwrap


def interval(values, draws=2000):
    """95 % bootstrap interval of the median."""
    source = random.Random(1)
    medians = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(draws))
    return medians[int(draws * 0.025)], medians[int(draws * 0.975)]


def ratios(ours, theirs):
    return [a / b for a, b in zip(ours, theirs)]


class Row:
    """One line of the table: `values` are of single rounds, `wanted` and `stretch` upper bounds for their median, with
    `at_least` lower ones."""

    def __init__(self, name, unit, wanted, stretch, values, beside="", reason="", at_least=False):
        self.name, self.unit, self.wanted, self.stretch = name, unit, wanted, stretch
        self.values, self.beside, self.reason, self.at_least = values, beside, reason, at_least

    @property
    def median(self):
        return statistics.median(self.values) if self.values else None

    def verdict(self):
        if self.median is None:
            return "-"
        if self.wanted is None:
            return ""
        if self.stretch is not None and self.reaches(self.stretch):
            return "stretch"
        return "ok" if self.reaches(self.wanted) else "MISSED"

    def reaches(self, bound):
        return self.median >= bound if self.at_least else self.median <= bound

    def cells(self):
        bound = ["-" if b is None else "%g%s" % (b, self.unit) for b in (self.wanted, self.stretch)]
        if self.median is None:
            return [self.name, *bound, "-", "-", "-", self.reason]
        low, high = interval(self.values)
        return [self.name, *bound, "%.3g%s" % (self.median, self.unit), "%.3g .. %.3g" % (low, high), self.verdict(),
                self.beside]

    def for_machines(self):
        return {"name": self.name, "unit": self.unit.strip(), "at_least": self.at_least, "target": self.wanted, "stretch": self.stretch,
                "median": self.median, "interval": interval(self.values) if self.values else None,
                "values": self.values, "beside": self.beside, "reason": self.reason}


HEADS = ["", "target", "stretch", "measured", "95 %", "", ""]


def table(rows):
    lines = [HEADS] + [row.cells() for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def narrow_table(rows, width=80):
    """The same for 80 columns: what, measured, wanted, and below it what belongs to it."""
    lines = []
    for row in rows:
        bound = "-" if row.wanted is None else "%s %g%s" % (">=" if row.at_least else "<=", row.wanted, row.unit)
        told = "-" if row.median is None else "%.3g%s" % (row.median, row.unit)
        lines.append("%-44s %10s %12s  %s" % (row.name[:44], told, bound, row.verdict()))
        lines += textwrap.wrap(row.reason or row.beside, width, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(line.rstrip() for line in ["%-44s %10s %12s" % ("", "measured", "wanted")] + lines)
