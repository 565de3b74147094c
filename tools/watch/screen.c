// SPDX-License-Identifier: Apache-2.0
#include "watch/screen.h"

#include <stdio.h>

int ct_screen_run(struct ct_watch_list *list, const struct ct_watch_options *options) {
    (void)list;
    (void)options;
    fputs("cutrace: watch: use --once\n", stderr);
    return CT_WATCH_WRONG_USAGE;
}
