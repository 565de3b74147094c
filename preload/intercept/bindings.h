// SPDX-License-Identifier: Apache-2.0
// Which loaded modules call hooked functions past this library: their tables of bound symbols show
// another function. So it is with RTLD_DEEPBIND, in another namespace of the loader (dlmopen), and
// behind an interposer that comes first.
#ifndef CT_BINDINGS_H
#define CT_BINDINGS_H

// Looks at the modules that are loaded, and publishes coverage.bound_elsewhere.N and its like.
// The writer thread only, without a lock: it takes none of the loader's either, and modules may be
// unloaded meanwhile.
void ct_bindings_look(void);

#endif
