// SPDX-License-Identifier: Apache-2.0
// Which program an out-of-memory is of, and the options of servers by what they are for. Advice
// names an option only of the server that has it.
#ifndef CT_SERVER_OPTIONS_H
#define CT_SERVER_OPTIONS_H

#include "text/facts.h"

enum ct_option_role {
    CT_OPTION_BUDGET,      // the share of the device that weights and KV cache may have
    CT_OPTION_STEP_TOKENS, // tokens in a step
    CT_OPTION_REQUESTS,    // requests in a step
    CT_OPTION_GRAPH_SIZES, // how many graphs are captured, and how large
    CT_OPTION_NO_GRAPHS,
    CT_OPTION_RANKS, // GPUs that share the weights
    CT_OPTION_QUANTIZATION,
};

struct ct_server_option {
    enum ct_framework server;
    enum ct_option_role role;
    enum ct_text_flag flag; // the setting that has its value; CT_TEXT_FLAGS: none
    const char *name, *versions;
};

// The option of a server for a role, or NULL: it has none, or the server is not known.
const struct ct_server_option *ct_server_option_find(enum ct_framework server,
                                                     enum ct_option_role role);
// Whether options of a program are known.
int ct_server_has_options(enum ct_framework program);
// The program that a failed request is of: by the frames of its stack, else by the command line
// that was read (`command`, NULL: unknown), else by the log (may be NULL).
enum ct_framework ct_server_of_request(enum ct_framework framework, const char *command,
                                       const struct ct_text_facts *log);

#endif
