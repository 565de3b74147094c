// SPDX-License-Identifier: Apache-2.0
// Completion for bash and zsh.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/argument_table.h"
#include "manual/generate.h"
#include "run/words.h"

// Whether the name of an option's value lists its values: "auto|always|never", without a
// placeholder such as TIME.
static int is_list(const char *argument) {
    for (const char *at = argument; *at; at++)
        if (!islower((unsigned char)*at) && *at != '|')
            return 0;
    return 1;
}

// "[text|json]": a value that may be left out.
static int is_optional(const char *argument) {
    return argument && *argument == '[';
}

// The words of "oom|peak|end|TIME" that stand for themselves, separated by blanks.
static void put_values(const char *argument) {
    const char *first = argument + is_optional(argument);
    for (const char *at = first; *at; at += *at == '|' || *at == ']') {
        const int n = (int)strcspn(at, "|]");
        if (islower((unsigned char)*at))
            printf("%s%.*s", at == first ? "" : " ", n, at);
        at += n;
    }
}

static int has_values(const char *argument) {
    return argument && (strchr(argument, '|') || is_list(argument));
}

static void put_command_names(const struct ct_command_line *table, const char *between) {
    for (int c = 0; c < table->command_count; c++)
        printf("%s%s", c ? between : "", table->commands[c].name);
    if (table == &ct_argument_table)
        printf("%shelp", between);
}

// The requests of `cutrace ctl`: the alternatives at the end of its usage.
static const char *get_requests(void) {
    return strrchr(ct_run_table.commands[CT_RUN_ctl].usage, ' ') + 1;
}

// ---- bash ---------------------------------------------------------------------------------------

static void put_bash_options(const struct ct_command_line *table) {
    fputs("    case $command in\n", stdout);
    for (int c = 0; c < table->command_count; c++) {
        printf("    %s) options='", table->commands[c].name);
        for (int o = 0, n = 0; o < table->option_count; o++) {
            const struct ct_option_row *row = &table->options[o];
            if (!ct_command_line_takes(table, c, o))
                continue;
            printf("%s--%s%s", n++ ? " " : "", row->name, row->argument ? "=" : "");
            if (is_optional(row->argument))
                printf(" --%s", row->name);
            if (row->letter)
                printf(" -%c", row->letter);
        }
        fputs("' ;;\n", stdout);
    }
    fputs("    esac\n", stdout);
}

static void put_bash_values(const struct ct_command_line *table) {
    fputs("    case $option in\n", stdout);
    for (int o = 0; o < table->option_count; o++) {
        const struct ct_option_row *one = &table->options[o];
        if (!one->argument)
            continue;
        printf("    --%s", one->name);
        if (one->letter)
            printf(" | -%c", one->letter);
        fputs(") ", stdout);
        if (is_optional(one->argument)) { // it is in the same word, or there is none
            fputs("[[ $separator = *=* ]] && COMPREPLY=($(compgen -W '", stdout);
            put_values(one->argument);
            fputs("' -- \"$current\")) && return ;;\n", stdout);
            continue;
        }
        if (has_values(one->argument)) {
            fputs("COMPREPLY=($(compgen -W '", stdout);
            put_values(one->argument);
            fputs("' -- \"$current\")); return ;;\n", stdout);
        } else if (strcmp(one->argument, "DIR") == 0) {
            fputs("COMPREPLY=($(compgen -d -- \"$current\")); return ;;\n", stdout);
        } else if (strcmp(one->argument, "FILE") == 0 || strcmp(one->argument, "PATTERN") == 0) {
            fputs("COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n", stdout);
        } else {
            fputs("return ;;\n", stdout);
        }
    }
    fputs("    esac\n", stdout);
}

// What both functions begin with. The shell takes "--color=al" for three words.
static void begin_bash(const char *function) {
    printf("%s() {\n"
           "    local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "    local command= options= i\n"
           "    local separator=$current$option\n"
           "    COMPREPLY=()\n"
           "    if [ \"$current\" = = ]; then\n"
           "        current=\n"
           "    elif [ \"$option\" = = ]; then\n"
           "        option=${COMP_WORDS[COMP_CWORD - 2]}\n"
           "    fi\n",
           function);
}

static void put_bash_report(void) {
    begin_bash("_cutrace_report");
    fputs("    for ((i = 1; i < COMP_CWORD; i++)); do\n        case ${COMP_WORDS[i]} in\n        ",
          stdout);
    put_command_names(&ct_argument_table, " | ");
    fputs(") command=${COMP_WORDS[i]} && break ;;\n        esac\n    done\n", stdout);
    put_bash_values(&ct_argument_table);
    fputs("    [ -n \"$command\" ] || { [[ $current != -* ]] && COMPREPLY=($(compgen -W '", stdout);
    put_command_names(&ct_argument_table, " ");
    fputs("' -- \"$current\")); }\n    command=${command:-summary}\n", stdout);
    put_bash_options(&ct_argument_table);
    fputs(
        "    if [[ $current = -* ]]; then\n"
        "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
        "        [[ ${COMPREPLY[0]-} = *= ]] && type compopt >/dev/null 2>&1 && compopt -o nospace\n"
        "    elif [ \"$command\" = help ]; then\n        COMPREPLY=($(compgen -W '",
        stdout);
    put_command_names(&ct_argument_table, " ");
    fputs("' -- \"$current\"))\n    else\n"
          "        COMPREPLY+=($(compgen -f -- \"$current\"))\n    fi\n} 2>/dev/null\n",
          stdout);
}

static void put_bash_cutrace(void) {
    begin_bash("_cutrace");
    fputs("    if [ \"$COMP_CWORD\" = 1 ]; then\n        COMPREPLY=($(compgen -W '", stdout);
    put_command_names(&ct_run_table, " ");
    fputs(" --help --version' -- \"$current\"))\n        return\n    fi\n"
          "    command=${COMP_WORDS[1]}\n",
          stdout);
    // The first word of the program to run: after the options.
    fputs("    if [ \"$command\" = run ] || [ \"$command\" = doctor ]; then\n"
          "        for ((i = 2; i < COMP_CWORD; i++)); do\n"
          "            case ${COMP_WORDS[i]} in\n"
          "            --) i=$((i + 1)) && break ;;\n"
          "            -o | -p | --output | --pid | =) i=$((i + 1)) ;;\n"
          "            -*) ;;\n            *) break ;;\n            esac\n        done\n"
          "        if ((i < COMP_CWORD)); then\n"
          "            COMPREPLY=($(compgen -f -- \"$current\"))\n            return\n        fi\n"
          "    fi\n",
          stdout);
    put_bash_values(&ct_run_table);
    put_bash_options(&ct_run_table);
    fputs(
        "    if [[ $current = -* ]]; then\n"
        "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
        "        [[ ${COMPREPLY[0]-} = *= ]] && type compopt >/dev/null 2>&1 && compopt -o nospace\n"
        "        return\n    fi\n"
        "    case $command in\n"
        "    run | doctor) COMPREPLY=($(compgen -c -- \"$current\") $(compgen -f -- \"$current\")) ;;\n"
        "    help) COMPREPLY=($(compgen -W '",
        stdout);
    put_command_names(&ct_run_table, " ");
    fputs("' -- \"$current\")) ;;\n    ctl)\n        if [ \"$COMP_CWORD\" = 3 ]; then\n"
          "            COMPREPLY=($(compgen -W '",
          stdout);
    put_values(get_requests());
    fputs(
        "' -- \"$current\"))\n        else\n            COMPREPLY=($(compgen -f -- \"$current\"))\n"
        "        fi\n        ;;\n    esac\n} 2>/dev/null\n",
        stdout);
}

void ct_generate_bash(void) {
    fputs("# SPDX-License-Identifier: Apache-2.0\n"
          "# Completion of cutrace and cutrace-report for bash, made from the programs' tables.\n",
          stdout);
    put_bash_cutrace();
    put_bash_report();
    fputs("complete -F _cutrace cutrace\n"
          "complete -o filenames -F _cutrace_report cutrace-report\n",
          stdout);
}

// ---- zsh ----------------------------------------------------------------------------------------

// Within '...' and a description of _arguments.
static void put_zsh_text(const char *text) {
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            printf("%s%c", strchr("[]:\\", *text) ? "\\" : "", *text);
}

static void put_zsh_action(const char *argument) {
    fputs(is_optional(argument) ? "::" : ":", stdout);
    put_zsh_text(argument);
    putchar(':');
    if (has_values(argument)) {
        putchar('(');
        put_values(argument);
        putchar(')');
    } else if (strcmp(argument, "DIR") == 0) {
        fputs("_files -/", stdout);
    } else if (strcmp(argument, "FILE") == 0 || strcmp(argument, "PATTERN") == 0) {
        fputs("_files", stdout);
    }
}

static void put_zsh_option(const struct ct_option_row *o) {
    if (o->letter) {
        printf(" '-%c%s[", o->letter, o->argument ? "+" : "");
        put_zsh_text(o->help);
        putchar(']');
        if (o->argument)
            put_zsh_action(o->argument);
        putchar('\'');
    }
    const char *equals = is_optional(o->argument) ? "=-" : "=";
    printf(" '--%s%s[", o->name, o->argument ? equals : "");
    put_zsh_text(o->help);
    putchar(']');
    if (o->argument)
        put_zsh_action(o->argument);
    putchar('\'');
}

static void put_zsh_program(const struct ct_command_line *table, const char *function) {
    printf(
        "%s() {\n    local command=%s word\n    local -a commands options rest\n    commands=(\n",
        function, table == &ct_argument_table ? "summary" : "");
    for (int c = 0; c < table->command_count; c++) {
        printf("        '%s:", table->commands[c].name);
        put_zsh_text(table->commands[c].help);
        fputs("'\n", stdout);
    }
    if (table == &ct_argument_table)
        fputs("        'help:all commands and options, or those of a command'\n", stdout);
    fputs("    )\n    for word in ${words[2,CURRENT-1]}; do\n        case $word in\n        (",
          stdout);
    put_command_names(table, "|");
    fputs(") command=$word; break ;;\n        esac\n    done\n    case $command in\n", stdout);
    for (int c = 0; c < table->command_count; c++) {
        printf("    (%s) options=(", table->commands[c].name);
        for (int o = 0; o < table->option_count; o++)
            if (ct_command_line_takes(table, c, o))
                put_zsh_option(&table->options[o]);
        fputs(") ;;\n", stdout);
    }
    fputs("    esac\n", stdout);
}

void ct_generate_zsh(void) {
    fputs("#compdef cutrace cutrace-report\n# SPDX-License-Identifier: Apache-2.0\n"
          "# Completion of cutrace and cutrace-report for zsh, made from the programs' tables.\n",
          stdout);
    put_zsh_program(&ct_run_table, "_cutrace_launcher");
    fputs(
        "    if ((CURRENT == 2)); then\n        _describe command commands\n        return\n    fi\n"
        "    case $command in\n"
        "    (run|doctor) rest=('*:::program:_normal') ;;\n"
        "    (help) rest=('2:command:(",
        stdout);
    put_command_names(&ct_run_table, " ");
    fputs(")') ;;\n    (ctl) rest=('2:process or trace:_files' '3:request:(", stdout);
    put_values(get_requests());
    fputs(")') ;;\n    esac\n    shift words\n    ((CURRENT--))\n"
          "    _arguments -s $options $rest\n}\n",
          stdout);
    put_zsh_program(&ct_argument_table, "_cutrace_report");
    fputs("    ((CURRENT == 2)) && _describe command commands\n"
          "    _arguments -s $options '*:trace:_files'\n}\n"
          "case $service in\n(cutrace) _cutrace_launcher \"$@\" ;;\n"
          "(*) _cutrace_report \"$@\" ;;\nesac\n",
          stdout);
}
