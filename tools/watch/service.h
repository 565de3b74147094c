// SPDX-License-Identifier: Apache-2.0
// cutrace watch without a terminal: serves what it sees by HTTP (--serve), says what is new
// (--log). One thread looks at the processes, and makes each answer of one look; another one serves
// clients. So neither a client nor a large trace keeps the other thread waiting.
#ifndef CT_WATCH_SERVICE_H
#define CT_WATCH_SERVICE_H

#include "watch/list.h"
#include "watch/watch.h"

// Whether it has something to serve or to say.
int ct_service_is_wanted(const struct ct_watch_options *options);
// Until a signal ends it; without both it only ticks, for a keeper. Returns an exit code.
int ct_service_run(struct ct_watch_list *list, const struct ct_watch_options *options);

#endif
