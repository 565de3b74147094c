// SPDX-License-Identifier: Apache-2.0
// INFO about the process and its machine, without anything private.
#ifndef CT_WRITE_PROCESS_INFO_H
#define CT_WRITE_PROCESS_INFO_H

// Sets the keys process.*, host.*, option.* and clock.* (FORMAT.md, section 4). Reads /proc: not
// for hot paths. Drain lock held.
void ct_process_info_publish(void);

#endif
