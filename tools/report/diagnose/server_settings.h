// SPDX-License-Identifier: Apache-2.0
// The settings that a server ran with: of its command line in the trace, else of its log, else the
// default of its version, if nothing else can have set it.
#ifndef CT_SERVER_SETTINGS_H
#define CT_SERVER_SETTINGS_H

#include "read/facts.h"
#include "text/facts.h"

enum ct_setting_source { CT_SETTING_UNKNOWN, CT_SETTING_TRACE, CT_SETTING_LOG, CT_SETTING_DEFAULT };

struct ct_setting {
    enum ct_setting_source source;
    char text[32];  // as written, sanitized
    int64_t number; // in millionths; 0: it is none
};

// `log` may be NULL.
struct ct_setting ct_server_settings_find(const struct ct_facts *facts,
                                          const struct ct_text_facts *log, enum ct_text_flag flag);

// The default of a version of vLLM, as written; NULL: not known.
const char *ct_server_settings_default(enum ct_text_flag flag, const char *version);

#endif
