// SPDX-License-Identifier: Apache-2.0
#include "diagnose/server_options.h"

#include <string.h>

static const struct ct_server_option options[] = {
#define CT_SERVER_OPTION(SERVER, ROLE, FLAG, name, versions) \
    {CT_SERVER_##SERVER, CT_OPTION_##ROLE, CT_TEXT_##FLAG, name, versions},
#include "diagnose/server_options.def"
};

// The names of servers in a trace, and the bits of a text. SGLang and TGI have files of vLLM's:
// they come before it.
static const struct {
    enum ct_server server;
    enum ct_framework framework;
    uint32_t of_text;
    const char *program;
} servers[] = {
    {CT_SERVER_SGLANG, CT_FRAMEWORK_SGLANG, CT_TEXT_OF_SGLANG, "sglang"},
    {CT_SERVER_TGI, CT_FRAMEWORK_TGI, CT_TEXT_OF_TGI, "tgi"},
    {CT_SERVER_VLLM, CT_FRAMEWORK_VLLM, CT_TEXT_OF_VLLM, "vllm"},
};
enum { SERVERS = sizeof servers / sizeof *servers };

const struct ct_server_option *ct_server_option_find(enum ct_server server,
                                                     enum ct_option_role role) {
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].server == server && options[i].role == role)
            return &options[i];
    return NULL;
}

enum ct_server ct_server_of_text(const struct ct_text_facts *f) {
    for (size_t i = 0; i < SERVERS; i++)
        if (f->programs & servers[i].of_text)
            return servers[i].server;
    return CT_SERVER_UNKNOWN;
}

enum ct_server ct_server_of_request(enum ct_framework framework, const char *program,
                                    const struct ct_text_facts *log) {
    for (size_t i = 0; i < SERVERS; i++)
        if (framework == servers[i].framework)
            return servers[i].server;
    for (size_t i = 0; program && i < SERVERS; i++)
        if (strcmp(program, servers[i].program) == 0)
            return servers[i].server;
    return log ? ct_server_of_text(log) : CT_SERVER_UNKNOWN;
}
