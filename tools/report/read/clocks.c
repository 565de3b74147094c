// SPDX-License-Identifier: Apache-2.0
#include "read/clocks.h"

void ct_clocks_read(struct ct_clocks *c, const struct ct_definitions *n) {
    *c = (struct ct_clocks){.known = 0};
    c->known = ct_definitions_info_number(n, "clock.monotonic_ns", &c->monotonic_ns) &&
               ct_definitions_info_number(n, "clock.realtime_ns", &c->realtime_ns);
}

int ct_clocks_utc(const struct ct_clocks *c, uint64_t t_ns, uint64_t *utc_ns) {
    const int is_later = t_ns >= c->monotonic_ns;
    const int wraps = is_later
                          ? __builtin_add_overflow(c->realtime_ns, t_ns - c->monotonic_ns, utc_ns)
                          : __builtin_sub_overflow(c->realtime_ns, c->monotonic_ns - t_ns, utc_ns);
    return c->known && !wraps && *utc_ns <= INT64_MAX;
}
