// SPDX-License-Identifier: Apache-2.0
#include "print/coverage_limits.h"

int ct_coverage_limits_write(const struct ct_view *v, uint64_t lost, char *to) {
    struct ct_coverage c;
    ct_coverage_read(&c, v->trace);
    const int is_limited = ct_coverage_limits(&c, lost, to);
    ct_coverage_free(&c);
    return is_limited;
}

void ct_coverage_limits_print(struct ct_view *v, uint64_t lost) {
    char text[CT_COVERAGE_LIMITS];
    (void)ct_coverage_limits_write(v, lost, text);
    fprintf(v->out, "limits: %s\n", text);
}
