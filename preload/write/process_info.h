// SPDX-License-Identifier: Apache-2.0
// What the trace says about the process and its machine, and what it keeps quiet about.
#ifndef CT_PROCESS_H
#define CT_PROCESS_H

// Sets the facts (FORMAT.md, section 4) through ct_info_set. Reads /proc; not for hot paths.
void ct_process_info_publish(void);

#endif
