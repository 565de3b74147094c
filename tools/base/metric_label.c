// SPDX-License-Identifier: Apache-2.0
#include "base/metric_label.h"

#include <stdio.h>
#include <string.h>

// The digits after label=" that a quote ends.
static void copy_digits(const char *from, char *to) {
    const size_t n = strspn(from, "0123456789");
    if (n && n <= CT_METRIC_LABEL_DIGITS && from[n] == '"')
        (void)snprintf(to, CT_METRIC_LABEL_DIGITS + 1, "%.*s", (int)n, from);
}

// Values can have any letter, so that a name counts only where a label begins.
void ct_metric_label_copy(const char *labels, const char *label,
                          char to[CT_METRIC_LABEL_DIGITS + 1]) {
    const size_t n = strlen(label);
    int in_value = 0, begins = 1;
    *to = 0;
    for (const char *p = labels; *p; p++) {
        if (!in_value && begins && strncmp(p, label, n) == 0 && p[n] == '=' && p[n + 1] == '"') {
            copy_digits(p + n + 2, to);
            return;
        }
        begins = !in_value && *p == ',';
        if (in_value && *p == '\\' && p[1])
            p++;
        else if (*p == '"')
            in_value = !in_value;
    }
}
