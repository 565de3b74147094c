// SPDX-License-Identifier: Apache-2.0
// Facts for the INFO section: a bounded table of keys and values (ct_info of recorder.h fills it).
#ifndef CT_INFO_H
#define CT_INFO_H

#include <cutrace/codec.h>

// Lets the hooks refresh their facts (ct_set_info_source).
void ct_info_refresh(void);

// Writes an INFO section with what has changed since it was last written; nothing if nothing has.
// What does not fit stays for the next one. Drainer only.
void ct_info_write(struct ct_out *out);

// Everything is to be written again (a new file).
void ct_info_forked(void);

#endif
