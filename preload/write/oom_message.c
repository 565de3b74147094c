// SPDX-License-Identifier: Apache-2.0
// The line on stderr that says which allocation the driver refused.
#include "write/oom_message.h"

#include "base/print.h"

#define UNKNOWN UINT64_MAX

struct line {
    char *out;
    size_t at, size;
};

static __attribute__((format(printf, 2, 3))) void add(struct line *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    l->at += ct_vprint(l->out + l->at, l->size - l->at, format, arguments);
    va_end(arguments);
}

// A size on its own: in the unit that leaves at least one digit before the point.
static void add_size(struct line *l, uint64_t bytes) {
    static const char *const units[] = {"GiB", "MiB", "KiB"};
    for (unsigned i = 0; i < 3; i++) {
        const unsigned shift = 30 - 10 * i;
        if (bytes >> shift) {
            add(l, "%.2f %s", (double)bytes / (double)(UINT64_C(1) << shift), units[i]);
            return;
        }
    }
    add(l, "%lu B", bytes);
}

// The device's numbers share one unit, so that they can be added up while reading.
static void add_device(struct line *l, const struct ct_refusal *r) {
    const int large = r->total == UNKNOWN || r->total >> 30;
    const double unit = large ? 1073741824.0 : 1048576.0;
    const char *before = ": ";
    if (r->free != UNKNOWN) {
        add(l, ": free ");
        if (large && r->free < UINT64_C(10) << 20) // too little to show in the unit of the rest
            add_size(l, r->free);
        else
            add(l, "%.2f %s", (double)r->free / unit, large ? "GiB" : "MiB");
        if (r->total != UNKNOWN)
            add(l, " of %.2f%s", (double)r->total / unit,
                large && r->free < UINT64_C(10) << 20 ? " GiB" : "");
        before = ", ";
    }
    if (r->tracked != UNKNOWN) {
        add(l, "%sthis process %.1f%s tracked", before, (double)r->tracked / unit,
            r->free != UNKNOWN ? ""
            : large            ? " GiB"
                               : " MiB");
        if (r->process != UNKNOWN && r->process >= r->tracked)
            add(l, " + %.1f untracked", (double)(r->process - r->tracked) / unit);
        before = ", ";
    }
    if (r->process != UNKNOWN && r->total != UNKNOWN && r->free != UNKNOWN &&
        r->total >= r->free + r->process)
        add(l, "%sothers %.1f", before, (double)(r->total - r->free - r->process) / unit);
}

size_t ct_oom_message_format(const struct ct_refusal *r, char *out, size_t size) {
    struct line l = {out, 0, size - 1};
    add(&l, "cutrace: ");
    if (r->device >= 0)
        add(&l, "GPU %d ", r->device);
    add(&l, "refused ");
    if (r->bytes != UNKNOWN)
        add_size(&l, r->bytes);
    else
        add(&l, "memory");
    if (r->api)
        add(&l, " to %.80s", r->api);
    if (r->caller && *r->caller)
        add(&l, " (%.120s)", r->caller);
    add_device(&l, r);
    if (r->path && *r->path)
        add(&l, "; run: cutrace-report %.1000s", r->path);
    out[l.at++] = '\n';
    out[l.at] = 0;
    return l.at;
}
