// SPDX-License-Identifier: Apache-2.0
// The completion of shells, written to standard output.
#ifndef CT_GENERATE_H
#define CT_GENERATE_H

void ct_generate_bash(void);
void ct_generate_zsh(void);

#endif
