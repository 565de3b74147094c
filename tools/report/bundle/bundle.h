// SPDX-License-Identifier: Apache-2.0
// The command bundle, and copy into a zip file: traces of a job as one file. BUNDLE.md says what is
// in it.
#ifndef CT_BUNDLE_H
#define CT_BUNDLE_H

#include "answer/view.h"
#include "symbols/phase_rules.h"

// Whether the command is bundle, or copy of several traces or into FILE.zip.
int ct_bundle_is_asked(const struct ct_arguments *o);
// Writes the file and says what is in it. Returns an exit code.
int ct_bundle_write(const struct ct_arguments *o, const struct ct_phase_rules *rules);

// Paths of traces. Their texts are the command line's, or last as names of sources do (source.h).
struct ct_bundle_paths {
    char **paths;
    size_t count, capacity;
};

// Replaces each path that is a zip file by the traces in it, as FILE/NAME. `l` holds the paths of
// `o` then; the caller frees it, also after an error. 0, or -1 with an error.
int ct_bundle_expand(struct ct_bundle_paths *l, struct ct_arguments *o, struct ct_error *error);
void ct_bundle_paths_free(struct ct_bundle_paths *l);

#endif
