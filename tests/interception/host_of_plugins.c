// SPDX-License-Identifier: Apache-2.0
// Opens plugins: host_of_plugins local|deepbind|newlm PLUGIN... (the way may change between
// plugins). With WAYS_LOOK_UP the program itself looks a driver function up first. With WAYS_FORK a
// child of the program uses the last plugin, too. With WAYS_THREADS it says whether its C library
// knows that it has threads. With WAYS_KEYS it has thread-specific data, and says what became of
// it. With WAYS_END it ends in another way, behind the first plugin. With WAYS_WAIT it waits for a
// file behind each plugin. With WAYS_LAST the last plugin is asked for that function.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char __libc_single_threaded __attribute__((weak)); // since glibc 2.32

static int is_way(const char *word) {
    return !strcmp(word, "local") || !strcmp(word, "deepbind") || !strcmp(word, "newlm");
}

static void *open_plugin(const char *how, const char *path) {
    if (!strcmp(how, "newlm"))
        return dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | (strcmp(how, "deepbind") ? 0 : RTLD_DEEPBIND));
}

static void wait_for_file(const char *path) {
    const struct timespec pause = {0, 100000};
    while (access(path, F_OK) != 0)
        (void)nanosleep(&pause, NULL);
}

// ---- forks --------------------------------------------------------------------------------------

static char loading[512], forking[512], loaded[512];

static void say_that_it_forks(void) {
    FILE *const f = fopen(forking, "w");
    if (f)
        (void)fclose(f);
}

// Forks while a thread holds the loader's lock, until the fork has begun (libslow_load.c).
static void wait_for_slow_load(const char *path) {
    (void)snprintf(loading, sizeof loading, "%s.loading", path);
    (void)snprintf(forking, sizeof forking, "%s.forking", path);
    (void)snprintf(loaded, sizeof loaded, "%s.loaded", path);
    wait_for_file(loading);
    (void)pthread_atfork(say_that_it_forks, NULL, NULL); // called before the handlers of others
}

// Uses the plugin in a child of the program's own fork, which ends by "exit" or "_exit".
static int in_a_child(const char *how, int (*plugin)(size_t)) {
    int status = -1;
    if (getenv("WAYS_SLOW_LOAD"))
        wait_for_slow_load(getenv("WAYS_SLOW_LOAD"));
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child) {
        (void)waitpid(child, &status, 0);
        printf("child: %d\n", status);
        return status;
    }
    if (*loaded && access(loaded, F_OK) != 0)
        _exit(99); // the fork has copied the loader's state as it was in the middle of a load
    const int r = plugin ? plugin((size_t)9 << 20) : -1;
    (void)dlopen("libm.so.6", RTLD_NOW); // takes the loader's lock, and the heap
    if (!strcmp(how, "exit"))
        exit(r);
    _exit(r);
}

// ---- thread-specific data -----------------------------------------------------------------------

enum { KEYS = 64 };
static pthread_key_t keys[KEYS];

static void set_keys(void) {
    for (size_t i = 0; i < KEYS; i++)
        if (pthread_key_create(&keys[i], NULL) || pthread_setspecific(keys[i], &keys[i]))
            abort();
}

static void look_at_keys(void) {
    int changed = 0;
    for (size_t i = 0; i < KEYS; i++)
        changed += pthread_getspecific(keys[i]) != &keys[i];
    printf("changed keys: %d\n", changed);
}

// ---- ends ---------------------------------------------------------------------------------------

// Ends without the program's own exit(): "killed", "exec", or by the "exit" of the plugin's C
// library, which does not know the program's handlers.
static void end_like(const char *how, void *plugin) {
    void (*plugins_exit)(int) = (void (*)(int))dlsym(plugin, "exit");
    (void)fflush(stdout);
    if (!strcmp(how, "killed"))
        (void)kill(getpid(), SIGKILL);
    if (!strcmp(how, "exec"))
        (void)execl("/bin/true", "true", (char *)NULL);
    if (!strcmp(how, "exit"))
        plugins_exit(0);
    abort();
}

// -------------------------------------------------------------------------------------------------

int main(int argc, char **argv) {
    int bad = argc < 3;
    if (getenv("WAYS_LOOK_UP"))
        bad |= !dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
    if (getenv("WAYS_KEYS"))
        set_keys();
    const char *how = argv[1];
    int (*plugin)(size_t) = NULL;
    for (int i = 2; i < argc; i++) {
        if (is_way(argv[i])) {
            how = argv[i];
            continue;
        }
        void *h = open_plugin(how, argv[i]);
        const char *last = i == argc - 1 ? getenv("WAYS_LAST") : NULL;
        plugin = h ? (int (*)(size_t))dlsym(h, last ? last : "plugin_run") : NULL;
        const int r = plugin ? plugin((size_t)i << 20) : -1;
        printf("plugin %d: %d\n", i, r);
        if (!h)
            fprintf(stderr, "%s\n", dlerror());
        bad |= r;
        if (getenv("WAYS_WAIT"))
            wait_for_file(getenv("WAYS_WAIT"));
        if (h && getenv("WAYS_END"))
            end_like(getenv("WAYS_END"), h);
    }
    if (getenv("WAYS_KEYS"))
        look_at_keys();
    if (getenv("WAYS_FORK"))
        bad |= in_a_child(getenv("WAYS_FORK"), plugin);
    if (getenv("WAYS_THREADS"))
        printf("%s\n", !&__libc_single_threaded || !__libc_single_threaded
                           ? "knows its threads"
                           : "believes to have one thread");
    return bad;
}
