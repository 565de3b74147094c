// SPDX-License-Identifier: Apache-2.0
// The recorder's line on stderr about a failed allocation: what an event says of the failure, and
// the sentence that is made of it.
//
// Header-only, because the report writes the same sentence for an event of a trace (`bundle`), so
// that a line in a log and the trace of its process can be found by each other. Pure functions; any
// thread.
#ifndef CUTRACE_OOM_MESSAGE_H
#define CUTRACE_OOM_MESSAGE_H

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>

#include <cutrace/model/failures.h>
#include <cutrace/model/live.h>
#include <cutrace/model/readings.h>

// What is known about an OOM: bytes of this moment, and texts. Unknown numbers are UINT64_MAX (the
// device: -1), unknown texts NULL or "". `tracked` and `untracked` are of this process;
// `unattributed` is untracked or of others; `earlier` failures are not described, but counted.
struct ct_oom {
    int device, by_pytorch;
    int with_host; // the device has the host's memory: `unattributed` may be of its programs, too
    uint64_t bytes, free, total, tracked, in_flight, untracked, others, unattributed, earlier;
    const char *api, *caller, *path;
    const char *memory; // what was asked for; NULL: memory of the device
};

// An OOM of which nothing is known.
#define CT_OOM_UNKNOWN                                                              \
    {                                                                               \
        .device = -1, .bytes = UINT64_MAX, .free = UINT64_MAX, .total = UINT64_MAX, \
        .tracked = UINT64_MAX, .in_flight = UINT64_MAX, .untracked = UINT64_MAX,    \
        .others = UINT64_MAX, .unattributed = UINT64_MAX                            \
    }

// Formats like vsnprintf, but returns the length of the text that is in the buffer. The recorder
// must not call the C library's (base/print.h).
typedef size_t ct_oom_print(char *buffer, size_t size, const char *format, va_list arguments);

// ---- what an event says -------------------------------------------------------------------------

// How old a reading may be for PyTorch's report, which has none of its own.
#define CT_OOM_READ_NS UINT64_C(1000000000)

// What a request asks for that the device does not have to have; NULL: memory of the device.
static inline const char *ct_oom_name_memory(const struct ct_event *e) {
    if (e->op == CT_OP_RESERVE)
        return "address space";
    if (e->op == CT_OP_REGISTER || (CT_HAS(e, space) && e->space == CT_SPACE_HOST))
        return "page-locked host memory";
    return NULL;
}

// Whether the reading that the breakdown follows from is of the moment of the failed call.
static inline int ct_oom_is_read_then(const struct ct_event *e, const struct ct_breakdown *s) {
    if (!s->used_known || s->moved_on)
        return 0;
    if (e->op == CT_OP_BLOCK_OOM)
        return e->t_ns - s->reading_t_ns <= CT_OOM_READ_NS;
    return CT_HAS(e, free_bytes) && s->reading_t_ns == e->t_ns;
}

// Describes a failure by its event and the breakdown of its device at that moment. `device_total`:
// the size of the device as CUDA reports it; UINT64_MAX: unknown. Texts are the caller's to set.
static inline struct ct_oom ct_oom_describe(const struct ct_event *e, const struct ct_breakdown *s,
                                            uint64_t device_total) {
    struct ct_oom oom = CT_OOM_UNKNOWN;
    oom.by_pytorch = e->op == CT_OP_BLOCK_OOM;
    oom.memory = ct_oom_name_memory(e);
    if (ct_event_has_requested_bytes(e))
        oom.bytes = e->bytes;
    if (CT_HAS(e, device))
        oom.device = e->device;
    if (ct_event_device_index(e) < CT_MAX_DEVICES)
        oom.tracked = s->tracked;
    if (CT_HAS(e, free_bytes)) {
        oom.free = e->free_bytes;
        oom.total = CT_HAS(e, total_bytes) ? e->total_bytes : device_total;
    }
    if (!ct_oom_is_read_then(e, s))
        return oom;
    oom.free = s->free;
    oom.total = s->total;
    oom.in_flight = s->in_flight;
    oom.unattributed = s->unattributed;
    oom.with_host = s->with_host;
    if (s->split_known) {
        oom.untracked = s->untracked;
        oom.others = s->others;
    }
    return oom;
}

// ---- the sentence -------------------------------------------------------------------------------

struct ct_oom_line {
    char *out;
    size_t at, size;
    ct_oom_print *print;
};

static inline __attribute__((format(printf, 2, 3))) void ct_oom_add(struct ct_oom_line *l,
                                                                    const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    l->at += l->print(l->out + l->at, l->size - l->at, format, arguments);
    va_end(arguments);
}

// A size in the largest unit that leaves a digit before the point, between two texts.
static inline void ct_oom_add_size(struct ct_oom_line *l, const char *before, uint64_t bytes,
                                   const char *after) {
    static const char *const units[] = {"GiB", "MiB", "KiB"};
    for (unsigned i = 0; i < 3; i++) {
        const unsigned shift = 30 - 10 * i;
        if (bytes >> shift) {
            ct_oom_add(l, "%s%.2f %s%s", before, (double)bytes / (double)(UINT64_C(1) << shift),
                       units[i], after);
            return;
        }
    }
    ct_oom_add(l, "%s%" PRIu64 " B%s", before, bytes, after);
}

static inline void ct_oom_add_request(struct ct_oom_line *l, const struct ct_oom *oom) {
    if (oom->by_pytorch)
        ct_oom_add(l, "PyTorch's allocation");
    else if (oom->api)
        ct_oom_add(l, "%.80s", oom->api);
    else
        ct_oom_add(l, "allocation");
    if (oom->bytes != UINT64_MAX) {
        ct_oom_add_size(l, " of ", oom->bytes, "");
    } else {
        ct_oom_add(l, " of unknown size");
    }
    if (oom->memory)
        ct_oom_add(l, " of %.80s", oom->memory);
    ct_oom_add(l, " failed");
    if (oom->caller && *oom->caller)
        ct_oom_add(l, " (%.120s)", oom->caller);
}

static inline int ct_oom_has(uint64_t bytes) {
    return bytes != UINT64_MAX && bytes;
}

static inline void ct_oom_add_process(struct ct_oom_line *l, const struct ct_oom *oom) {
    ct_oom_add_size(l, oom->free == UINT64_MAX ? ": this process " : ", this process ",
                    oom->tracked, " tracked");
    if (ct_oom_has(oom->in_flight))
        ct_oom_add_size(l, " + ", oom->in_flight, " in flight");
    if (oom->untracked != UINT64_MAX)
        ct_oom_add_size(l, " + ", oom->untracked, " untracked");
}

static inline void ct_oom_add_others(struct ct_oom_line *l, const struct ct_oom *oom) {
    if (oom->others != UINT64_MAX)
        ct_oom_add_size(l, ", others ", oom->others, "");
    if (ct_oom_has(oom->unattributed))
        ct_oom_add_size(l, ", ", oom->unattributed,
                        oom->with_host ? " of the host, untracked or of others"
                                       : " untracked or of others");
}

static inline void ct_oom_add_device(struct ct_oom_line *l, const struct ct_oom *oom) {
    if (oom->free != UINT64_MAX)
        ct_oom_add_size(l, ": free ", oom->free, "");
    if (oom->free != UINT64_MAX && oom->total != UINT64_MAX)
        ct_oom_add_size(l, " of ", oom->total, "");
    if (oom->tracked != UINT64_MAX)
        ct_oom_add_process(l, oom);
    if (oom->free != UINT64_MAX)
        ct_oom_add_others(l, oom);
}

// Writes the line with its newline, without the parts that are unknown; long texts are cut. Returns
// its length.
static inline size_t ct_oom_message_format(const struct ct_oom *oom, char *out, size_t size,
                                           ct_oom_print *print) {
    struct ct_oom_line l = {out, 0, size - 1, print}; // room for the newline
    ct_oom_add(&l, "cutrace: ");
    if (oom->earlier)
        ct_oom_add(&l, "%" PRIu64 " more failed, the last of them: ", oom->earlier + 1);
    if (oom->device >= 0 && !oom->memory)
        ct_oom_add(&l, "GPU %d ", oom->device);
    ct_oom_add(&l, "out of memory: ");
    ct_oom_add_request(&l, oom);
    if (!oom->memory)
        ct_oom_add_device(&l, oom);
    if (oom->path && *oom->path)
        ct_oom_add(&l, "; run: cutrace-report %.1000s", oom->path);
    out[l.at++] = '\n';
    out[l.at] = 0;
    return l.at;
}

#endif
