// SPDX-License-Identifier: Apache-2.0
// Looks from time to time at what the recorder may not hear of: modules that bypass the hooks,
// children without the library. In the writer thread; without a lock of the loader's or the drain,
// but for the list of what is loaded.
#ifndef CT_SURVEY_H
#define CT_SURVEY_H

// What looks at the modules. Set once, before the first event.
void ct_survey_set(void (*look)(void));

// Looks if it is time: at once, and then after 1, 2, 4, ... seconds, at most 10 minutes. The writer
// thread only.
void ct_survey_look_if_due(void);

// At the exit, before the writer thread is stopped: asks for a last look. Tells whether it is done.
void ct_survey_ask_last(void);
int ct_survey_is_finished(void);

void ct_survey_publish_info(void);
void ct_survey_reinit_child(void);

#endif
