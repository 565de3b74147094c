// SPDX-License-Identifier: Apache-2.0
// Hooks on other subscribers of CUPTI.
#ifndef CT_CUPTI_HOOKS_H
#define CT_CUPTI_HOOKS_H

// Exported. The parameters have the sizes of CUPTI's own types; the functions only pass them on.
int cuptiSubscribe(void **subscriber, void (*call_back)(void), void *userdata);
int cuptiSubscribe_v2(void **subscriber, void (*call_back)(void), void *userdata, void *params);

// What a look-up of `name` by dlsym gets instead of `answer`: the hook above, or the answer.
void *ct_cupti_hooks_substitute(const char *name, void *answer);

#endif
