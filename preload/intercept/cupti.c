// SPDX-License-Identifier: Apache-2.0
// The subscription at CUPTI: its start, its end, and what is said of it.
#define _GNU_SOURCE
#include "intercept/cupti.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cutrace/format/format.h>

#include "base/options.h"
#include "base/read_file.h"
#include "base/real_dlsym.h"
#include "intercept/audit.h"
#include "intercept/cupti_parts.h"
#include "intercept/driver.h"
#include "intercept/load_way.h"
#include "intercept/own_image.h"
#include "intercept/passes.h"
#include "record/publish.h"
#include "record/tracing.h"
#include "stack/own_code.h"
#include "store/name_table.h"
#include "write/info_table.h"

// The part of CUPTI's interface that is used (cupti_callbacks.h, cupti_version.h). The functions
// are looked up at run time.
#define SUCCESS 0
#define MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED 39
#define DOMAIN_DRIVER_API 1
#define DOMAIN_RESOURCE 3
#define MODULE_LOADED 6
#define MODULE_UNLOAD_STARTING 7
#define OLDEST 18     // CUDA 12.0
#define NEWEST 139999 // CUDA 13.x: its numbers are MAJOR * 10000 + MINOR * 100 + PATCH

typedef void call_back_fn(void *userdata, int domain, uint32_t cbid, const void *cbdata);
struct subscriber_params { // CUpti_SubscriberParams of 13.0
    size_t size;
    const char *name;
    char *old_name;
    size_t old_name_bytes;
};

#define CUPTI_FUNCTIONS(X)                                            \
    X(get_version, cuptiGetVersion, (uint32_t *))                     \
    X(get_text, cuptiGetResultString, (int, const char **))           \
    X(subscribe, cuptiSubscribe, (void **, call_back_fn *, void *))   \
    X(unsubscribe, cuptiUnsubscribe, (void *))                        \
    X(enable, cuptiEnableCallback, (uint32_t, void *, int, uint32_t)) \
    X(subscribe_v2, cuptiSubscribe_v2,                                \
      (void **, call_back_fn *, void *, /* from 13.0 */               \
       struct subscriber_params *))

static struct {
#define MEMBER(member, symbol, prototype) int(*member) prototype;
    CUPTI_FUNCTIONS(MEMBER)
} cupti;

enum { UNDECIDED, STARTING, OFF, ON, ENDED };
static atomic_int state;
static uint32_t subscriptions;
static void *own_subscriber;

// For INFO. Written before `state` leaves STARTING, and by the one thread that ends it.
static char outcome[320];
static char library[512];
static uint32_t version;
static unsigned unknown_ids;

static int is_asked_for(void) {
    return CT_OPTION_NUMBER(BACKEND) == CT_BACKEND_OF_CUPTI || CT_OPTION_NUMBER(AUDIT);
}

int ct_cupti_is_wanted(void) {
    return is_asked_for() || ct_load_way_is_injected();
}

// A tool that InitializeInjection calls first comes before our subscription.
static int must_wait(void) {
    return !is_asked_for() && ct_load_way_awaits_injection();
}

// ---- start ----------------------------------------------------------------------------------

// Why there is no subscription, in one line.
__attribute__((format(printf, 1, 2))) static int fail(const char *format, ...) {
    char line[480];
    const char *const remains = ct_load_way_has_hooks() ? "calls are recorded by preload only"
                                                        : "no call is recorded without LD_PRELOAD";
    va_list args;
    va_start(args, format);
    vsnprintf(outcome, sizeof outcome, format, args);
    va_end(args);
    snprintf(line, sizeof line, "cutrace: no CUPTI: %s; %s\n", outcome, remains);
    ct_options_say(line);
    return -1;
}

static int load(void) {
    void *const h = ct_cupti_find_library(library, sizeof library);
    if (!h)
        return fail(
            "found no libcupti.so.13 or .12 (CUTRACE_CUPTI=/path/libcupti.so.13 names one)");
#define LOOK_UP(member, symbol, prototype) \
    *(void **)&cupti.member = ct_real_dlsym_get_libc()(h, #symbol);
    CUPTI_FUNCTIONS(LOOK_UP)
    if (!cupti.get_version || !cupti.subscribe || !cupti.unsubscribe || !cupti.enable)
        return fail("%s lacks functions of CUPTI's", library);
    if (cupti.get_version(&version) != SUCCESS)
        return fail("%s does not know its version", library);
    if (version < OLDEST)
        return fail("%s is too old (interface %u; 18, of CUDA 12.0, is the oldest)", library,
                    version);
    if (version > NEWEST)
        return fail("%s is too new (interface %u; CUDA 13's are the newest that are known)",
                    library, version);
    return 0;
}

static const char *text_of(int result) {
    const char *text = NULL;
    if (!cupti.get_text || cupti.get_text(result, &text) != SUCCESS || !text)
        return "an error without a name";
    return text;
}

static int subscribe(void *number) {
    char holder[128] = "";
    struct subscriber_params params = {sizeof params, "cutrace", holder, sizeof holder};
    int r;
    if (cupti.subscribe_v2)
        r = cupti.subscribe_v2(&own_subscriber, ct_cupti_calls_back, number, &params);
    else
        r = cupti.subscribe(&own_subscriber, ct_cupti_calls_back, number);
    if (r == MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        return fail("%s uses it, and it serves one at a time",
                    *holder ? holder : "another tool (a profiler, a debugger)");
    if (r != SUCCESS)
        return fail("cuptiSubscribe returned %d, %s", r, text_of(r));
    return 0;
}

static int enable_calls(void) {
    unsigned enabled = 0;
    for (int i = 0; i < CT_HOOKS; i++) {
        const uint32_t id = ct_cupti_calls_id((enum ct_hook_id)i);
        if (!id)
            continue;
        ct_audit_add_hook((enum ct_hook_id)i);
        if (cupti.enable(1, own_subscriber, DOMAIN_DRIVER_API, id) == SUCCESS)
            enabled++;
        else
            unknown_ids++; // of a newer driver than this library knows
    }
    (void)cupti.enable(1, own_subscriber, DOMAIN_RESOURCE, MODULE_LOADED);
    (void)cupti.enable(1, own_subscriber, DOMAIN_RESOURCE, MODULE_UNLOAD_STARTING);
    if (enabled)
        return 0;
    cupti.unsubscribe(own_subscriber);
    return fail("%s takes none of the call-backs", library);
}

#ifdef CT_WITH_CUPTI
enum { HAS_CALL_BACKS = 1 };
#else
enum { HAS_CALL_BACKS = 0 };
#endif

static int start(void) {
    if (!HAS_CALL_BACKS)
        return fail("this libcutrace.so was built without CUPTI's headers");
    const char *const profiler = ct_cupti_find_unwatched(ct_load_way_has_hooks());
    if (profiler && ct_load_way_has_hooks())
        return fail("%s has a CUPTI of its own, whose profiler would fail beside ours", profiler);
    if (profiler)
        return fail("%s uses it, and would fail beside us, who cannot see when it begins",
                    profiler);
    if (load())
        return -1;
    const uint32_t number = subscriptions + 1;
    if (subscribe((void *)(uintptr_t)number))
        return -1;
    subscriptions = number;
    ct_own_code_add_passed((void *)(uintptr_t)cupti.subscribe);
    ct_own_code_add_passed(ct_next_driver_symbol("cuDriverGetVersion"));
    atomic_store(&ct_subscription_number, number);
    if (enable_calls()) {
        atomic_store(&ct_subscription_number, 0);
        return -1;
    }
    if (CT_OPTION_NUMBER(AUDIT))
        ct_audit_set_on(1);
    snprintf(outcome, sizeof outcome, "on");
    return 0;
}

static __attribute__((noinline)) void start_slow(void) {
    const int saved = errno;
    int undecided = UNDECIDED;
    if (!ct_tracing_is_on()) {
        // another time: it may be switched on
    } else if (!ct_cupti_is_wanted()) {
        atomic_store(&ct_wrapped_calls_are_noted, 0);
        atomic_compare_exchange_strong(&state, &undecided, OFF);
    } else if (!must_wait() && ct_next_driver_handle() &&
               atomic_compare_exchange_strong(&state, &undecided, STARTING)) {
        const int rc = start();
        if (rc)
            atomic_store(&ct_wrapped_calls_are_noted, 0);
        atomic_store(&state, rc ? OFF : ON);
    }
    errno = saved;
}

void ct_cupti_start(void) {
    if (__builtin_expect(atomic_load_explicit(&state, memory_order_acquire) == UNDECIDED, 0))
        start_slow();
}

// ---- end ------------------------------------------------------------------------------------

static void publish_note(const char *who) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_NOTE);
    CT_SET(
        &e, text,
        ct_name_intern_format("CUPTI was given to %s: calls that only CUPTI sees are not recorded "
                              "from here on",
                              who));
    ct_publish(&e);
}

// Another subscriber of the process begins: ours ends, with a NOTE in the trace. `who`: the library
// that subscribes. Does nothing if there is no subscription.
static void end_for(const char *who) {
    int on = ON;
    if (!atomic_compare_exchange_strong(&state, &on, ENDED))
        return;
    const int saved = errno;
    ct_audit_set_on(0);
    atomic_store(&ct_wrapped_calls_are_noted, 0);
    atomic_store(&ct_subscription_number, 0);
    cupti.unsubscribe(own_subscriber);
    snprintf(outcome, sizeof outcome, "given to %s", who);
    publish_note(who);
    errno = saved;
}

void ct_cupti_rescan(void) {
    ct_cupti_start();
    if (atomic_load(&state) != ON)
        return;
    const char *const profiler = ct_cupti_find_unwatched(ct_load_way_has_hooks());
    if (profiler)
        end_for(profiler);
}

// ---- INFO -----------------------------------------------------------------------------------

void ct_cupti_publish_info(void) {
    const int now = atomic_load(&state);
    if (now == UNDECIDED && must_wait())
        ct_info_set("cupti.state", "the driver has not called InitializeInjection");
    if (now == UNDECIDED || now == STARTING || !*outcome)
        return;
    ct_info_set("cupti.state", "%s", outcome);
    if (!version)
        return;
    ct_info_set("cupti.library", "%s", library);
    ct_info_set("cupti.version", "%u", version);
    ct_cupti_modules_publish_info();
    if (unknown_ids)
        ct_info_set("cupti.unknown_functions", "%u", unknown_ids);
}

// ---- other subscribers ------------------------------------------------------------------------

// cuptiSubscribe of other tools in the process. CUPTI serves one subscriber: kineto, PyTorch's
// profiler, tries once and never again. So ours ends before theirs begins.

#define NOT_INITIALIZED 15 // CUPTI_ERROR_NOT_INITIALIZED: there is no libcupti

enum { SUBSCRIBE, SUBSCRIBE_V2, FUNCTIONS };
static const char *const names[FUNCTIONS] = {"cuptiSubscribe", "cuptiSubscribe_v2"};
static _Atomic(void *) looked_up[FUNCTIONS]; // what a program's dlsym returned last

static void *find_in(const char *object, const char *name) {
    void *const h = object ? dlopen(object, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    return h ? ct_own_image_look_beyond(h, name) : NULL;
}

// What the caller would have called: of the libcupti that its own object needs, else the next one
// in the global scope, else any.
static void *find_next(const char *name, const char *object) {
    void *p = find_in(object, name);
    if (!p)
        p = ct_own_image_look_beyond(RTLD_NEXT, name);
    if (!p)
        p = find_in("libcupti.so.13", name);
    return p ? p : find_in("libcupti.so.12", name);
}

static void *give_way(int function, const void *caller) {
    Dl_info info;
    const char *object = NULL;
    void *p = atomic_load(&looked_up[function]);
    if (dladdr(caller, &info))
        object = info.dli_fname;
    if (!p)
        p = find_next(names[function], object);
    end_for(object && *object ? ct_base_name(object) : "the program");
    return p;
}

#define EXPORT __attribute__((visibility("default")))

EXPORT int cuptiSubscribe(void **subscriber, void (*call_back)(void), void *userdata) {
    int (*real)(void **, void (*)(void), void *);
    *(void **)&real = give_way(SUBSCRIBE, __builtin_return_address(0));
    return real ? real(subscriber, call_back, userdata) : NOT_INITIALIZED;
}

EXPORT int cuptiSubscribe_v2(void **subscriber, void (*call_back)(void), void *userdata,
                             void *params) {
    int (*real)(void **, void (*)(void), void *, void *);
    *(void **)&real = give_way(SUBSCRIBE_V2, __builtin_return_address(0));
    return real ? real(subscriber, call_back, userdata, params) : NOT_INITIALIZED;
}

void *ct_cupti_hooks_substitute(const char *name, void *answer) {
    static void *const wrappers[FUNCTIONS] = {(void *)cuptiSubscribe, (void *)cuptiSubscribe_v2};
    for (int i = 0; answer && i < FUNCTIONS; i++)
        if (!strcmp(name, names[i]) && !ct_own_image_has(answer)) {
            atomic_store(&looked_up[i], answer);
            return wrappers[i];
        }
    return answer;
}
