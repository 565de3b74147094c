// SPDX-License-Identifier: Apache-2.0
// The line on stderr about a failed allocation.
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
    l->at += ct_print_va(l->out + l->at, l->size - l->at, format, arguments);
    va_end(arguments);
}

// A size on its own: in the largest unit that leaves a digit before the point.
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

static void add_request(struct line *l, const struct ct_oom *oom) {
    if (oom->by_pytorch)
        add(l, "PyTorch's allocation");
    else if (oom->api)
        add(l, "%.80s", oom->api);
    else
        add(l, "allocation");
    if (oom->bytes != UNKNOWN) {
        add(l, " of ");
        add_size(l, oom->bytes);
    } else {
        add(l, " of unknown size");
    }
    if (oom->memory)
        add(l, " of %.80s", oom->memory);
    add(l, " failed");
    if (oom->caller && *oom->caller)
        add(l, " (%.120s)", oom->caller);
}

// The device's numbers share one unit, so that a reader can add them up.
struct unit {
    double bytes;
    const char *name;
};

static struct unit choose_unit(const struct ct_oom *oom) {
    if (oom->total == UNKNOWN || oom->total >> 30)
        return (struct unit){1073741824.0, "GiB"};
    return (struct unit){1048576.0, "MiB"};
}

static void add_free(struct line *l, const struct ct_oom *oom, struct unit unit) {
    // Below 10 MiB, GiB would show 0.00 or 0.01.
    const int needs_own_unit = unit.bytes > 1048576.0 && oom->free < UINT64_C(10) << 20;
    add(l, ": free ");
    if (needs_own_unit)
        add_size(l, oom->free);
    else
        add(l, "%.2f %s", (double)oom->free / unit.bytes, unit.name);
    if (oom->total == UNKNOWN)
        return;
    add(l, " of %.2f", (double)oom->total / unit.bytes);
    if (needs_own_unit)
        add(l, " %s", unit.name);
}

// Whether a size is known and not shown as 0.0.
static int is_shown(uint64_t bytes, struct unit unit) {
    return bytes != UNKNOWN && (double)bytes >= 0.05 * unit.bytes;
}

static void add_process(struct line *l, const struct ct_oom *oom, struct unit unit) {
    add(l, "%sthis process %.1f", oom->free == UNKNOWN ? ": " : ", ",
        (double)oom->tracked / unit.bytes);
    if (oom->free == UNKNOWN)
        add(l, " %s", unit.name);
    add(l, " tracked");
    if (is_shown(oom->in_flight, unit))
        add(l, " + %.1f in flight", (double)oom->in_flight / unit.bytes);
    if (oom->untracked != UNKNOWN)
        add(l, " + %.1f untracked", (double)oom->untracked / unit.bytes);
}

static void add_others(struct line *l, const struct ct_oom *oom, struct unit unit) {
    if (oom->others != UNKNOWN)
        add(l, ", others %.1f", (double)oom->others / unit.bytes);
    if (is_shown(oom->unattributed, unit))
        add(l, ", %.1f untracked or of others", (double)oom->unattributed / unit.bytes);
}

static void add_device(struct line *l, const struct ct_oom *oom) {
    const struct unit unit = choose_unit(oom);
    if (oom->free != UNKNOWN)
        add_free(l, oom, unit);
    if (oom->tracked != UNKNOWN)
        add_process(l, oom, unit);
    if (oom->free != UNKNOWN)
        add_others(l, oom, unit);
}

size_t ct_oom_message_format(const struct ct_oom *oom, char *out, size_t size) {
    struct line l = {out, 0, size - 1}; // room for the newline
    add(&l, "cutrace: ");
    if (oom->earlier)
        add(&l, "%lu more failed, the last of them: ", oom->earlier);
    if (oom->device >= 0 && !oom->memory)
        add(&l, "GPU %d ", oom->device);
    add(&l, "out of memory: ");
    add_request(&l, oom);
    if (!oom->memory)
        add_device(&l, oom);
    if (oom->path && *oom->path)
        add(&l, "; run: cutrace-report %.1000s", oom->path);
    out[l.at++] = '\n';
    out[l.at] = 0;
    return l.at;
}
