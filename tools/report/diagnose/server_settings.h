// SPDX-License-Identifier: Apache-2.0
// The options of servers, the settings that one ran with, and advice on them.
#ifndef CT_SERVER_SETTINGS_H
#define CT_SERVER_SETTINGS_H

#include "diagnose/verdicts.h"
#include "read/facts.h"
#include "text/facts.h"

// Which program an out-of-memory is of, and the options of servers by what they are for. Advice
// names an option only of the server that has it.

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

// The settings that a server ran with: of its command line in the trace, else of its log, else the
// default of its version, if nothing else can have set it.

enum ct_setting_source { CT_SETTING_UNKNOWN, CT_SETTING_TRACE, CT_SETTING_LOG, CT_SETTING_DEFAULT };

struct ct_setting {
    enum ct_setting_source source;
    char text[32];  // as written, sanitized
    int64_t number; // in millionths; 0: it is none
};

// `facts` and `log` may be NULL.
struct ct_setting ct_server_settings_find(const struct ct_facts *facts,
                                          const struct ct_text_facts *log, enum ct_text_flag flag);

// A server and what says its settings.
struct ct_server {
    enum ct_framework is;
    const struct ct_facts *facts;    // of its trace; NULL: there is none
    const struct ct_text_facts *log; // the same
};

// The value of its option for a role; unknown: of no setting that is known.
struct ct_setting ct_server_find_option(const struct ct_server *s, enum ct_option_role role);

// The default of a version of vLLM, as written; NULL: not known.
const char *ct_server_settings_default(enum ct_text_flag flag, const char *version);

// Advice that needs no figures, or only those of settings: the same by a trace and by a text.

// Adds what plain_advice.def has for the verdict's scenario and the program.
void ct_plain_advice_add(struct ct_verdict *v, const struct ct_server *s);
// Adds advice on the server's option for a role, with its value of today and of tomorrow (NULL: not
// known). Nothing if the server has no such option.
void ct_plain_advice_option(struct ct_verdict *v, const struct ct_server *s,
                            enum ct_option_role role, const char *to, const char *why);
// Segments that grow, by the variable of the environment: `is_on` if they do already, `from` what
// the variable is (NULL: not known, or not set).
void ct_plain_advice_expandable(struct ct_verdict *v, enum ct_framework server, int is_on,
                                const char *variable, const char *from);
// What a setting can be so that a request that grows with it is no larger than what was free, in
// steps; 0: it is not known (a figure that is not known is less than 0), or would be 0.
int64_t ct_plain_advice_scale(int64_t now, int64_t step, int64_t asked, int64_t free);
// For weights that do not fit, or their conversion; and for graphs.
void ct_plain_advice_weights(struct ct_verdict *v, const struct ct_server *s);
void ct_plain_advice_graphs(struct ct_verdict *v, const struct ct_server *s);

#endif
