# SPDX-License-Identifier: Apache-2.0
"""ctypes for the simulated driver: structures, and calls that return (result, output)."""
import ctypes as C

SUCCESS, INVALID, OOM, NOT_INIT, NO_DEVICE, BAD_CONTEXT, DESTROYED = 0, 1, 2, 3, 100, 201, 709
MB = 1 << 20


class Location(C.Structure):
    _fields_ = [("type", C.c_int), ("id", C.c_int)]


class AllocationProp(C.Structure):
    _fields_ = [("type", C.c_int), ("handles", C.c_int), ("location", Location), ("win32", C.c_void_p),
                ("compression", C.c_ubyte), ("rdma", C.c_ubyte), ("usage", C.c_ushort), ("reserved", C.c_ubyte * 4)]


class PoolProps(C.Structure):
    _fields_ = [("type", C.c_int), ("handles", C.c_int), ("location", Location), ("win32", C.c_void_p),
                ("max_size", C.c_size_t), ("usage", C.c_ushort), ("reserved", C.c_ubyte * 54)]


class AccessDesc(C.Structure):
    _fields_ = [("location", Location), ("flags", C.c_int)]


class ArrayDesc(C.Structure):
    _fields_ = [("width", C.c_size_t), ("height", C.c_size_t), ("format", C.c_int), ("channels", C.c_uint)]


class Array3DDesc(C.Structure):
    _fields_ = [("width", C.c_size_t), ("height", C.c_size_t), ("depth", C.c_size_t), ("format", C.c_int),
                ("channels", C.c_uint), ("flags", C.c_uint)]


class MemAllocNode(C.Structure):
    _fields_ = [("pool", PoolProps), ("access", C.c_void_p), ("access_count", C.c_size_t), ("bytes", C.c_size_t),
                ("dptr", C.c_uint64)]


class MulticastProp(C.Structure):
    _fields_ = [("devices", C.c_uint), ("size", C.c_size_t), ("handles", C.c_ulonglong), ("flags", C.c_ulonglong)]


class ExternalHandle(C.Structure):
    class Handle(C.Union):
        _fields_ = [("fd", C.c_int), ("win32", C.c_void_p * 2), ("nvsci", C.c_void_p)]
    _fields_ = [("type", C.c_int), ("handle", Handle), ("size", C.c_ulonglong), ("flags", C.c_uint),
                ("reserved", C.c_uint * 16)]


class ExternalBuffer(C.Structure):
    _fields_ = [("offset", C.c_ulonglong), ("size", C.c_ulonglong), ("flags", C.c_uint), ("reserved", C.c_uint * 16)]


class IpcHandle(C.Structure):
    _fields_ = [("data", C.c_char * 64)]


def device_prop(device=0, handles=1):
    return AllocationProp(type=1, handles=handles, location=Location(1, device))


def pool_props(device=0, handles=1, max_size=0):
    return PoolProps(type=1, handles=handles, location=Location(1, device), max_size=max_size)


def mapped(d, size=4 * MB):
    """Physical memory at an address of its own; the address and the handle."""
    va = d.value("cuMemAddressReserve", size, 0, 0, 0)
    h = d.value("cuMemCreate", size, device_prop(), 0)
    assert d.cuMemMap(va, size, 0, h, 0) == 0
    return va, h


class Driver:
    """A call `d.cuX(...)` takes Python integers as 64-bit values; outputs are passed as ctypes objects."""

    def __init__(self, path="libcuda.so.1"):
        self.lib = C.CDLL(path)

    def __getattr__(self, name):
        function = getattr(self.lib, name)

        def call(*args):
            out = []
            for a in args:
                if isinstance(a, (C.Structure, C._SimpleCData, C.Array)) and not getattr(a, "by_value", False):
                    out.append(C.byref(a))
                elif isinstance(a, int):
                    out.append(C.c_uint64(a & (1 << 64) - 1))
                else:
                    out.append(a)
            return function(*out)
        return call

    def value(self, name, *args, kind=C.c_uint64):
        """A call whose first parameter is the output; returns the output and insists on success."""
        out = kind()
        result = getattr(self, name)(out, *args)
        assert result == 0, f"{name} returned {result}"
        return out.value

    def start(self, device=0):
        """cuInit and the primary context, current."""
        assert self.cuInit(0) == 0
        ctx = self.value("cuDevicePrimaryCtxRetain", device)
        assert self.cuCtxSetCurrent(ctx) == 0
        return ctx

    def alloc(self, size):
        out = C.c_uint64()
        return self.cuMemAlloc_v2(out, size), out.value

    def take(self, size):
        result, p = self.alloc(size)
        assert result == 0, f"cuMemAlloc_v2({size}) returned {result}"
        return p

    def info(self):
        free, total = C.c_size_t(), C.c_size_t()
        assert self.cuMemGetInfo_v2(free, total) == 0
        return free.value, total.value

    def free(self):
        return self.info()[0]

    def pool_attribute(self, pool, attribute):
        out = C.c_uint64()
        assert self.cuMemPoolGetAttribute(pool, attribute, out) == 0
        return out.value

    def address(self, name):
        return C.cast(getattr(self.lib, name), C.c_void_p).value

    def resolve(self, name, version, flags=0):
        out, status = C.c_void_p(1), C.c_int(-1)
        result = self.cuGetProcAddress_v2(name.encode(), out, version, flags, status)
        return result, out.value, status.value
