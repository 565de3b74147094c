// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcupti: the public interface of subscribers and activities, over the simulated
// driver's trace points. It is not NVIDIA's. README.md lists what it assumes.
#define _GNU_SOURCE
#include <cupti.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim_cupti.h"
#include "trace_points.h"

#ifndef SIM_CUPTI_VERSION // the build says which
#define SIM_CUPTI_VERSION CUPTI_API_VERSION
#endif

#define EXPORT __attribute__((visibility("default")))

// ---- parameters and log -------------------------------------------------------------------------

static const char *param(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

// SIM_CUPTI_LOG: a line for each call of a client's, so that a test knows who subscribed when.
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char line[256];
    va_list args;
    const char *const path = param("SIM_CUPTI_LOG");
    const int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (fd < 0)
        return;
    va_start(args, format);
    const int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}

// ---- the one subscriber -------------------------------------------------------------------------

#define NAME_BYTES 64 // "CUPTI for ", 53 characters, NUL

struct CUpti_Subscriber_st {
    CUpti_CallbackFunc callback;
    void *userdata;
    uint64_t number; // of the subscription, counted from 1
    char name[NAME_BYTES];
    atomic_bool enabled[CUPTI_DRIVER_TRACE_CBID_SIZE];
    atomic_bool of_resources[CUPTI_CBID_RESOURCE_SIZE];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUpti_Subscriber_st slot;
static _Atomic uint64_t subscription; // 0: the slot is free
static uint64_t subscriptions;
static atomic_uint correlation;

static void call_back(struct sim_point *point, bool is_exit) {
    const CUpti_CallbackData data = {
        .callbackSite = is_exit ? CUPTI_API_EXIT : CUPTI_API_ENTER,
        .functionName = point->function,
        .functionParams = point->params,
        .functionReturnValue = is_exit ? point->result : NULL,
        .correlationData = &point->correlation,
        .correlationId = (uint32_t)(point->entered >> 32),
    };
    slot.callback(slot.userdata, CUPTI_CB_DOMAIN_DRIVER_API, point->cbid, &data);
}

// A subscriber that has not seen the enter of a call does not see its exit, either.
static void trace(struct sim_point *point, bool is_exit) {
    const uint64_t now = atomic_load(&subscription);
    const bool wanted = now && atomic_load(&slot.enabled[point->cbid]);
    if (!is_exit && wanted)
        point->entered = (uint64_t)(atomic_fetch_add(&correlation, 1) + 1) << 32 | (uint32_t)now;
    if (wanted && (uint32_t)point->entered == (uint32_t)now)
        call_back(point, is_exit);
    if (is_exit)
        sim_activity_of_call(point);
    if (now)
        sim_modules_of_call(point, is_exit);
}

void sim_call_back_of_module(CUpti_CallbackIdResource cbid, uint32_t id, const void *cubin,
                             size_t bytes) {
    CUpti_ModuleResourceData module = {.moduleId = id, .cubinSize = bytes, .pCubin = cubin};
    const CUpti_ResourceData data = {.resourceDescriptor = &module};
    if (atomic_load(&slot.of_resources[cbid]))
        slot.callback(slot.userdata, CUPTI_CB_DOMAIN_RESOURCE, cbid, &data);
}

static bool set_tracer(sim_tracer *tracer) {
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    void (*set)(sim_tracer *) = NULL;
    if (driver)
        *(void **)&set = dlsym(driver, "sim_driver_set_tracer");
    if (set)
        set(tracer);
    return set;
}

// SIM_CUPTI: "busy NAME": another tool, which is no client of this library, holds the slot;
// a number: cuptiSubscribe returns it.
static CUptiResult scripted(const char **holder) {
    const char *const script = param("SIM_CUPTI");
    *holder = NULL;
    if (script && !strncmp(script, "busy ", 5)) {
        *holder = script + 5;
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    return script ? (CUptiResult)atoi(script) : CUPTI_SUCCESS;
}

static CUptiResult subscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
                             void *userdata, const char *name, char *old, size_t old_bytes) {
    const char *holder;
    CUptiResult result = scripted(&holder);
    pthread_mutex_lock(&lock);
    if (result == CUPTI_SUCCESS && atomic_load(&subscription)) {
        result = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
        holder = slot.name;
    }
    if (holder && old && old_bytes)
        snprintf(old, old_bytes, "%s", holder);
    if (result == CUPTI_SUCCESS && !set_tracer(trace))
        result = CUPTI_ERROR_NOT_INITIALIZED;
    if (result == CUPTI_SUCCESS) {
        memset(&slot, 0, sizeof slot);
        slot.callback = callback;
        slot.userdata = userdata;
        if (name)
            snprintf(slot.name, sizeof slot.name, "CUPTI for %.53s", name);
        slot.number = ++subscriptions;
        atomic_store(&subscription, slot.number);
        *subscriber = &slot;
    }
    pthread_mutex_unlock(&lock);
    say("subscribe %s %d\n", name ? name : "-", (int)result);
    return result;
}

EXPORT CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle *subscriber,
                                           CUpti_CallbackFunc callback, void *userdata) {
    return subscriber ? subscribe(subscriber, callback, userdata, NULL, NULL, 0)
                      : CUPTI_ERROR_INVALID_PARAMETER;
}

// From 13.0 on; what was built with older headers is a library without it.
#if defined SIM_CUPTI_NAMES && CUPTI_API_VERSION >= 130000
EXPORT CUptiResult CUPTIAPI cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber,
                                              CUpti_CallbackFunc callback, void *userdata,
                                              CUpti_SubscriberParams *pParams) {
    if (!subscriber || (pParams && !pParams->structSize))
        return CUPTI_ERROR_INVALID_PARAMETER;
    return subscribe(subscriber, callback, userdata, pParams ? pParams->subscriberName : NULL,
                     pParams ? pParams->oldSubscriberName : NULL,
                     pParams ? pParams->oldSubscriberSize : 0);
}
#endif

static bool is_subscriber(CUpti_SubscriberHandle subscriber) {
    return subscriber == &slot && atomic_load(&subscription);
}

EXPORT CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
    pthread_mutex_lock(&lock);
    const bool was = is_subscriber(subscriber);
    if (was)
        atomic_store(&subscription, 0);
    pthread_mutex_unlock(&lock);
    say("unsubscribe %s\n", was && *slot.name ? slot.name : "-");
    return was ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORT CUptiResult CUPTIAPI cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                                CUpti_CallbackDomain domain,
                                                CUpti_CallbackId cbid) {
    if (!is_subscriber(subscriber) || domain <= CUPTI_CB_DOMAIN_INVALID ||
        domain >= CUPTI_CB_DOMAIN_SIZE || !cbid)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (domain == CUPTI_CB_DOMAIN_RESOURCE && cbid < CUPTI_CBID_RESOURCE_SIZE)
        atomic_store(&slot.of_resources[cbid], enable != 0); // modules call back, nothing else
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API)
        return CUPTI_SUCCESS;
    if (cbid >= CUPTI_DRIVER_TRACE_CBID_SIZE || cbid >= sim_cupti_ids())
        return CUPTI_ERROR_INVALID_PARAMETER;
    atomic_store(&slot.enabled[cbid], enable != 0);
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult CUPTIAPI cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                              CUpti_CallbackDomain domain) {
    if (!is_subscriber(subscriber))
        return CUPTI_ERROR_INVALID_PARAMETER;
    for (uint32_t i = 1; domain == CUPTI_CB_DOMAIN_DRIVER_API && i < sim_cupti_ids(); i++)
        atomic_store(&slot.enabled[i], enable != 0);
    return CUPTI_SUCCESS;
}

// Ends everything: the subscriber, the activities. (The real one detaches itself from the driver.)
EXPORT CUptiResult CUPTIAPI cuptiFinalize(void) {
    atomic_store(&subscription, 0);
    sim_activity_end();
    (void)set_tracer(NULL);
    say("finalize\n");
    return CUPTI_SUCCESS;
}

// ---- version and texts --------------------------------------------------------------------------

EXPORT CUptiResult CUPTIAPI cuptiGetVersion(uint32_t *version) {
    if (!version)
        return CUPTI_ERROR_INVALID_PARAMETER;
    const char *const given = param("SIM_CUPTI_VERSION");
    *version = given ? (uint32_t)strtoul(given, NULL, 10) : SIM_CUPTI_VERSION;
    return CUPTI_SUCCESS;
}

// SIM_CUPTI_IDS: an older library knows fewer call-back ids.
uint32_t sim_cupti_ids(void) {
    const char *const given = param("SIM_CUPTI_IDS");
    return given ? (uint32_t)strtoul(given, NULL, 10) : CUPTI_DRIVER_TRACE_CBID_SIZE;
}

EXPORT CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
                                                 const char **name) {
    if (!name)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *name = "a function";
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char **text) {
    if (!text)
        return CUPTI_ERROR_INVALID_PARAMETER;
    switch (result) {
    case CUPTI_SUCCESS:
        *text = "CUPTI_SUCCESS";
        break;
    case CUPTI_ERROR_NOT_INITIALIZED:
        *text = "CUPTI_ERROR_NOT_INITIALIZED";
        break;
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
        *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
        break;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
        *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
        break;
    default:
        *text = "CUPTI_ERROR_UNKNOWN";
    }
    return CUPTI_SUCCESS;
}
