// SPDX-License-Identifier: Apache-2.0
// Seals what a dead process left: its journal goes into its trace, as cutrace-report copy --seal
// does it. Nobody asks for it by name here, so it is done only where the kernel says that no
// process can write to the journal any more, and only to files of this user.
#ifndef CT_WATCH_SEAL_H
#define CT_WATCH_SEAL_H

#include "watch/told.h"

enum ct_seal_result {
    CT_SEAL_NOTHING, // it is being recorded, or another program does it; or why not was told
    CT_SEAL_DONE,
    CT_SEAL_FAILED, // and it was told why
};

// The trace FOLDER/NAME, whose journal was found. `dry_run`: only says what it would do.
enum ct_seal_result ct_seal_trace(const char *folder, const char *name, int dry_run,
                                  struct ct_told *told);

#endif
