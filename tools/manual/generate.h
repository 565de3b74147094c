// SPDX-License-Identifier: Apache-2.0
// What is made of the tables, each written to standard output.
#ifndef CT_GENERATE_H
#define CT_GENERATE_H

void ct_generate_cutrace_1(void);
void ct_generate_cutrace_report_1(void);
void ct_generate_cutrace_trace_5(void);
void ct_generate_bash(void);
void ct_generate_zsh(void);

#endif
