// SPDX-License-Identifier: Apache-2.0
#include "diagnose/server_options.h"

#include <string.h>

static const struct ct_server_option options[] = {
#define CT_SERVER_OPTION(SERVER, ROLE, FLAG, name, versions) \
    {CT_FRAMEWORK_##SERVER, CT_OPTION_##ROLE, CT_TEXT_##FLAG, name, versions},
#include "diagnose/server_options.def"
};

const struct ct_server_option *ct_server_option_find(enum ct_framework server,
                                                     enum ct_option_role role) {
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].server == server && options[i].role == role)
            return &options[i];
    return NULL;
}

int ct_server_has_options(enum ct_framework program) {
    return ct_server_option_find(program, CT_OPTION_BUDGET) != NULL;
}

enum ct_framework ct_server_of_request(enum ct_framework framework, const char *command,
                                       const struct ct_text_facts *log) {
    if (ct_server_has_options(framework))
        return framework;
    for (int i = CT_FRAMEWORK_NONE + 1; command && i < CT_FRAMEWORKS; i++)
        if (strcmp(command, ct_framework_name((enum ct_framework)i)) == 0)
            return (enum ct_framework)i;
    const enum ct_framework of_log = log ? ct_text_facts_program(log) : CT_FRAMEWORK_NONE;
    return of_log ? of_log : framework;
}
