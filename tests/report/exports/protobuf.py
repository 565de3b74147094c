# SPDX-License-Identifier: Apache-2.0
"""Reads messages of Protocol Buffers without their definitions: a dictionary from field number to the list of its values."""


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value & (1 << 64) - 1, at


def fields(data):
    """Values are numbers (wire type 0) or bytes (2); nothing else may occur."""
    out, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            if at + value > len(data):
                raise ValueError("a field ends behind its message")
            value, at = data[at:at + value], at + value
        elif key & 7:
            raise ValueError("wire type %d" % (key & 7))
        out.setdefault(key >> 3, []).append(value)
    return out


def packed(data):
    out, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        out.append(value)
    return out
