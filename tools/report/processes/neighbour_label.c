// SPDX-License-Identifier: Apache-2.0
#include "processes/neighbour_label.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/utf8.h"
#include "processes/process.h"

enum { NAME = 33 };

static const char *describe(const struct ct_neighbour *p) {
    switch (p->whose) {
    case CT_NEIGHBOUR_SELF:
        return ", this process";
    case CT_NEIGHBOUR_SELF_INFERRED:
        return ", this process, inferred from its memory";
    default:
        return "";
    }
}

void ct_neighbour_label(const struct ct_definitions *definitions, const struct ct_neighbour *p,
                        char *to) {
    const struct ct_string *s = &definitions->strings[p->name];
    char name[NAME] = "", traced[CT_PROCESS_NAME] = "";
    if (p->name)
        ct_utf8_sanitize(name, sizeof name, s->at, s->length);
    if (p->process)
        ct_process_name(p->process, traced);
    if (!p->pid)
        (void)snprintf(to, CT_NEIGHBOUR_LABEL, "processes without a number");
    else if (p->process)
        (void)snprintf(to, CT_NEIGHBOUR_LABEL, "%s, traced%s", traced,
                       p->whose == CT_NEIGHBOUR_SIBLING_INFERRED ? ", inferred from its memory"
                                                                 : "");
    else if (*name)
        (void)snprintf(to, CT_NEIGHBOUR_LABEL, "%s (pid %" PRIu32 "%s)", name, p->pid, describe(p));
    else
        (void)snprintf(to, CT_NEIGHBOUR_LABEL, "pid %" PRIu32 "%s", p->pid, describe(p));
}
