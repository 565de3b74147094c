// SPDX-License-Identifier: Apache-2.0
// Which server an out-of-memory is of, and its options by what they are for. Advice names an option
// only of the server that has it.
#ifndef CT_SERVER_OPTIONS_H
#define CT_SERVER_OPTIONS_H

#include "symbols/phases.h"
#include "text/facts.h"

enum ct_server {
    CT_SERVER_UNKNOWN,
    CT_SERVER_VLLM,
    CT_SERVER_SGLANG,
    CT_SERVER_TGI,
    CT_SERVER_ANY, // of a row of plain_advice.def: all of these
};

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
    enum ct_server server;
    enum ct_option_role role;
    enum ct_text_flag flag; // the setting that has its value; CT_TEXT_FLAGS: none
    const char *name, *versions;
};

// The option of a server for a role, or NULL: it has none, or the server is not known.
const struct ct_server_option *ct_server_option_find(enum ct_server server,
                                                     enum ct_option_role role);
// The server that a text is of.
enum ct_server ct_server_of_text(const struct ct_text_facts *f);
// The server that a failed request is of: by the frames of its stack, else by the program whose
// command line was read (NULL: unknown), else by the log (may be NULL).
enum ct_server ct_server_of_request(enum ct_framework framework, const char *program,
                                    const struct ct_text_facts *log);

#endif
