# SPDX-License-Identifier: Apache-2.0
"""Reads what export writes for Perfetto, by the numbers of perfetto_trace.proto."""
import collections
import functools

import protobuf
from sources import export
from tap import check, equal


class Perfetto:
    """`counters` by name; `events`: slices and instants by track, as Perfetto would show them; `tracks` by their number; the
    `first` packet, which has the clocks."""

    def __init__(self, data):
        self.tables = {2: {}, 5: {}, 6: {}, 7: {}, 18: {}}  # names of events, functions, frames, stacks, files
        self.counters, self.events, self.tracks = collections.defaultdict(list), collections.defaultdict(list), {}
        packets = [protobuf.fields(packet) for packet in protobuf.fields(data)[1]]
        self.first = packets[0]
        for i, packet in enumerate(packets):
            equal((packet[10], packet[13]), ([1], [2 if i else 3]))
            self.define(packet)
            for event in map(protobuf.fields, packet.get(11, [])):
                self.add(packet[8][0], event)

    def define(self, packet):
        for track in map(protobuf.fields, packet.get(60, [])):
            check(track[1][0] not in self.tracks and all(p in self.tracks for p in track.get(5, [])), "a track is there once, behind its parent")
            self.tracks[track[1][0]] = track
        for interned in map(protobuf.fields, packet.get(12, [])):
            for field, table in self.tables.items():
                for entry in map(protobuf.fields, interned.get(field, [])):
                    check(entry[1][0] not in table)
                    table[entry[1][0]] = entry

    def add(self, t_ns, event):
        """(time, kind, name, stack, notes) of what is no counter."""
        track = self.tracks[event[11][0]]
        if event[9] == [4]:
            equal(protobuf.fields(track[8][0])[3], [3])  # bytes
            self.counters[track[2][0].decode()].append((t_ns, event[30][0]))
            return
        name = self.tables[2][event[10][0]][2][0].decode() if 10 in event else None
        stack = [self.frame(self.tables[6][i]) for i in self.tables[7][event[56][0]][2]] if 56 in event else []
        notes = {n[10][0].decode(): n.get(3, n.get(4, n.get(6, n.get(7))))[0] for n in map(protobuf.fields, event.get(4, []))}
        self.events[event[11][0]].append((t_ns, event[9][0], name, stack, notes))

    def frame(self, f):
        """(function, file, line, address)"""
        return (self.tables[5][f[2][0]][2][0].decode(), self.tables[18][f[5][0]][2][0].decode() if 5 in f else None,
                f.get(6, [None])[0], f.get(4, [0])[0])


@functools.lru_cache(maxsize=None)
def perfetto(path):
    return Perfetto(export(path, "perfetto"))
