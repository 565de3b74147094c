// SPDX-License-Identifier: Apache-2.0
// Facts for the INFO section: a bounded table of keys and values (ct_info of recorder.h fills it).
#ifndef CT_INFO_H
#define CT_INFO_H

// Lets the hooks refresh their facts (ct_set_info_source).
void ct_info_refresh(void);

// Puts what has changed since the last time into the chunk that is being filled. What does not fit stays
// for the next one. Drainer only.
void ct_info_stage(void);

// Everything is to be written again.
void ct_info_again(void);
void ct_info_forked(void);

#endif
