// SPDX-License-Identifier: Apache-2.0
// Failures by script. SIM_FAIL is a list of API:CALLS:RESULT, separated by commas: API is an
// exported name or "*", CALLS is "3", "3-5", "3-" or "*" (counted from 1, for each rule), RESULT a
// CUresult number. The results that destroy a context stay for all later calls in it.
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define MAX_RULES 32

struct rule {
    char api[64];
    unsigned long first, last, seen;
    CUresult result;
};

static struct rule rules[MAX_RULES];
static unsigned rule_count;
static bool parsed;

static const char *parse_calls(const char *p, struct rule *r) {
    char *end = (char *)p;
    if (*p == '*') {
        r->first = 1;
        r->last = ~0ul;
        return p + 1;
    }
    r->first = r->last = strtoul(p, &end, 10);
    if (*end == '-') {
        const char *from = end + 1;
        r->last = strtoul(from, &end, 10);
        if (end == from)
            r->last = ~0ul;
    }
    return end;
}

static void parse(void) {
    const char *p = sim_param.fail;
    while (p && *p && rule_count < MAX_RULES) {
        struct rule *r = &rules[rule_count];
        size_t n = strcspn(p, ":");
        if (n >= sizeof r->api || p[n] != ':')
            break;
        memcpy(r->api, p, n);
        p = parse_calls(p + n + 1, r);
        if (*p++ != ':')
            break;
        char *end;
        r->result = (CUresult)strtol(p, &end, 10);
        p = *end == ',' ? end + 1 : end;
        rule_count++;
    }
    parsed = true;
}

CUresult sim_fail(const char *api) {
    if (!parsed)
        parse();
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < rule_count; i++) {
        struct rule *r = &rules[i];
        if (strcmp(r->api, "*") != 0 && strcmp(r->api, api) != 0)
            continue;
        r->seen++;
        if (!result && r->seen >= r->first && r->seen <= r->last)
            result = r->result;
    }
    return result;
}

bool sim_is_sticky(CUresult result) {
    switch ((int)result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}
