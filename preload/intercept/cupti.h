// SPDX-License-Identifier: Apache-2.0
// The second way in: libcupti's call-backs of driver calls (CUTRACE_BACKEND=cupti,
// CUTRACE_AUDIT=1).
//
// A call that a wrapper sees is recorded by its wrapper. CUPTI adds those that no wrapper sees: of
// plugins opened with RTLD_DEEPBIND, of libraries that found the driver in another way. CUPTI has
// one subscriber at a time (before 13.2), so ours ends when any other begins.
#ifndef CT_CUPTI_H
#define CT_CUPTI_H

// Subscribes, if the options ask for it, once the driver is loaded; says on stderr why not if that
// fails. Later calls do nothing. Any thread that may call dlopen.
void ct_cupti_start(void);

// Whether the options ask for CUPTI.
int ct_cupti_is_wanted(void);

// Objects were loaded: starts if it could not before, and ends beside a profiler whose subscription
// would go unnoticed.
void ct_cupti_rescan(void);

void ct_cupti_publish_info(void);

// ---- other subscribers ------------------------------------------------------------------------

// Exported. The parameters have the sizes of CUPTI's own types; the functions only pass them on.
int cuptiSubscribe(void **subscriber, void (*call_back)(void), void *userdata);
int cuptiSubscribe_v2(void **subscriber, void (*call_back)(void), void *userdata, void *params);

// What a look-up of `name` by dlsym gets instead of `answer`: the hook above, or the answer.
void *ct_cupti_hooks_substitute(const char *name, void *answer);

#endif
