// SPDX-License-Identifier: Apache-2.0
// Frames that come first without and then with their symbols, generations of ids, and labels.
#include <string.h>

#include <cutrace/model/noise.h>

#include "../lib/unit.h"
#include "symbols/call_sites.h"
#include "symbols/demangle.h"

static struct ct_definitions names;
static uint8_t buffer[1 << 14];
static struct ct_out out;
static unsigned version; // of the format that the sections are of

BEFORE_EACH {
    version = CT_FORMAT_VERSION;
    ct_definitions_init(&names);
    ct_definitions_set_generation(&names, 0);
    out = (struct ct_out){buffer, buffer + sizeof buffer, 0};
    return 0;
}

AFTER_EACH {
    ct_definitions_free(&names);
    return 0;
}

static int take(unsigned kind) {
    const struct ct_in in = {buffer, out.at, 0};
    out.at = buffer;
    return ct_definitions_read_section(&names, version, kind, in);
}

static void put_entry(uint64_t id, const void *payload, size_t n) {
    ct_put_varint(&out, id);
    ct_put_text(&out, payload, n);
}

static void put_numbers(uint64_t id, const uint64_t *values, size_t n) {
    uint8_t payload[1100];
    struct ct_out p = {payload, payload + sizeof payload, 0};
    for (size_t i = 0; i < n; i++)
        ct_put_varint(&p, values[i]);
    put_entry(id, payload, (size_t)(p.at - payload));
}

#define NUMBERS(id, ...)                             \
    put_numbers(id, (const uint64_t[]){__VA_ARGS__}, \
                sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void define_string(uint64_t id, const char *text) {
    put_entry(id, text, strlen(text));
    assert_int_equal(take(CT_SECTION_STRINGS), 0);
}

// The frame with this place in a stack, 0: the innermost one.
static const struct ct_frame *frame_of(uint32_t stack, unsigned place) {
    uint32_t node = names.stacks[stack];
    while (place--)
        node = names.nodes[node].parent;
    return &names.frames[names.nodes[node].frame];
}

TEST(symbols_come_later) {
    NUMBERS(7, 0, 0x1234, 0, 0, 0, 0); // a frame of which only the pc is known
    assert_int_equal(take(CT_SECTION_FRAMES), 0);
    NUMBERS(1, 0, 1, 1, 14);
    assert_int_equal(take(CT_SECTION_STACKS), 0);
    const uint32_t stack = ct_definitions_id(&names, CT_SECTION_STACKS, 1);
    define_string(1, "_ZN3foo3barEv");
    NUMBERS(7, 0, 0x1234, 0, 0x34, 1, 4);
    assert_int_equal(take(CT_SECTION_FRAMES), 0);
    const struct ct_frame *f = frame_of(stack, 0);
    assert_int_equal(names.strings[f->function].length, 13);
    // Read again from the beginning, as the second pass does: same ids, nothing forgotten.
    ct_definitions_set_generation(&names, 1);
    ct_definitions_set_generation(&names, 0);
    NUMBERS(7, 0, 0x1234, 0, 0, 0, 0);
    assert_int_equal(take(CT_SECTION_FRAMES), 0);
    NUMBERS(1, 0, 1, 1, 14);
    assert_int_equal(take(CT_SECTION_STACKS), 0);
    assert_int_equal(ct_definitions_id(&names, CT_SECTION_STACKS, 1), stack);
    assert_int_not_equal(frame_of(stack, 0)->function, 0);
}

TEST(generations) {
    define_string(1, "one");
    const uint32_t one = ct_definitions_id(&names, CT_SECTION_STRINGS, 1);
    ct_definitions_set_generation(&names, 5);
    assert_int_equal(ct_definitions_id(&names, CT_SECTION_STRINGS, 1), 0);
    define_string(1, "two");
    define_string(2, "one");
    assert_int_equal(ct_definitions_id(&names, CT_SECTION_STRINGS, 2), one);
    assert_int_not_equal(ct_definitions_id(&names, CT_SECTION_STRINGS, 1), one);
}

// Frame ids are those of frames with the pc 0x1000 + id.
static void define_frames(uint64_t n) {
    for (uint64_t i = 1; i <= n; i++) {
        NUMBERS(i, 0, 0x1000 + i, 0, 0, 0, 0);
        assert_int_equal(take(CT_SECTION_FRAMES), 0);
    }
}

static uint32_t stack_named(uint64_t id) {
    return ct_definitions_id(&names, CT_SECTION_STACKS, id);
}

static void assert_pcs(uint64_t id, const uint64_t *pcs, uint32_t n) {
    const uint32_t stack = stack_named(id);
    assert_int_equal(ct_definitions_stack_node(&names, stack)->depth, n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(frame_of(stack, i)->pc, pcs[i] ? 0x1000 + pcs[i] : 0);
}

#define PCS(id, ...)                                \
    assert_pcs(id, (const uint64_t[]){__VA_ARGS__}, \
               sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

// Differences as the format has them.
enum { UP1 = 2, UP2 = 4, UP3 = 6, UP5 = 10, DOWN1 = 1, DOWN2 = 3, DOWN3 = 5 };

TEST(stacks_are_a_tree) {
    define_frames(5);
    NUMBERS(1, 0, 3, 1, UP1, UP1, UP1); // nodes 1 to 3: frames 1 <- 2 <- 3
    NUMBERS(2, 2, 2, 4, UP5, DOWN2);    // nodes 4 and 5 grow from node 2: frames 5 <- 3
    NUMBERS(3, 1, 0);                   // node 1 itself
    NUMBERS(4, 77, 1, 6, UP1);          // from a node that is not there
    NUMBERS(5, 0, 1, 7, UP1);           // node 1 once more, with another number
    NUMBERS(6, 0, 0);                   // no stack
    assert_int_equal(take(CT_SECTION_STACKS), 0);
    PCS(1, 3, 2, 1);
    PCS(2, 3, 5, 2, 1);
    PCS(3, 1);
    PCS(4, 1, 0);
    assert_int_equal(stack_named(5), stack_named(3));
    assert_int_equal(stack_named(6), 0);
    assert_int_equal(names.stack_count, 5);
    // The same in another generation and in the words of another version: the same stacks.
    const uint32_t want[] = {stack_named(1), stack_named(2), stack_named(3)};
    ct_definitions_set_generation(&names, 9);
    assert_int_equal(stack_named(1), 0);
    define_frames(5);
    version = 2;
    NUMBERS(31, 3, UP3, DOWN1, DOWN1);
    NUMBERS(32, 4, UP3, UP2, DOWN3, DOWN1); // 3 <- 5 <- 2 <- 1
    NUMBERS(33, 1, UP1);
    assert_int_equal(take(CT_SECTION_STACKS), 0);
    PCS(31, 3, 2, 1);
    PCS(32, 3, 5, 2, 1);
    assert_int_equal(stack_named(31), want[0]);
    assert_int_equal(stack_named(32), want[1]);
    assert_int_equal(stack_named(33), want[2]);
}

TEST(deep_stacks_share) {
    define_frames(2);
    uint64_t branch[3 + 100] = {0, 100, 1, UP1}; // (all of the frame 1)
    for (uint64_t i = 1; i <= 40; i++) {         // (100 frames at a time)
        branch[0] = (i - 1) * 100;
        branch[2] = (i - 1) * 100 + 1;
        put_numbers(i, branch, 103);
        assert_int_equal(take(CT_SECTION_STACKS), 0);
        assert_int_equal(ct_definitions_stack_node(&names, stack_named(i))->depth, i * 100);
    }
    assert_int_equal(names.node_count, 4001);
    for (uint64_t i = 1; i <= 50; i++) // many that differ in their innermost frame only
        NUMBERS(100 + i, 4000 - i, 1, 5000 + i, UP2);
    assert_int_equal(take(CT_SECTION_STACKS), 0);
    assert_int_equal(names.node_count, 4051);
    branch[0] = 4000; // 4100 frames
    branch[2] = 4001;
    put_numbers(41, branch, 103);
    assert_int_equal(take(CT_SECTION_STACKS), -1);
    NUMBERS(42, 4000, 96, 6000); // as many as there may be, but the entry ends
    assert_int_equal(take(CT_SECTION_STACKS), -1);
    branch[1] = 96;
    put_numbers(43, branch, 3 + 96);
    assert_int_equal(take(CT_SECTION_STACKS), 0);
    assert_int_equal(ct_definitions_stack_node(&names, stack_named(43))->depth, CT_MAX_STACK);
    NUMBERS(44, 4096, 1, 7000, UP1);
    assert_int_equal(take(CT_SECTION_STACKS), -1);
}

TEST(ends_and_places) {
    define_string(1, "inlined");
    define_string(2, "outer");
    define_string(3, "a.c");
    NUMBERS(1, 2, CT_STACK_DEEPER);
    NUMBERS(2, 2, CT_STACK_LOST);
    NUMBERS(3, 0, 0x1234, 0, 0, 2, 4, 2, 1, 3, 10, 2, 3, 20);
    NUMBERS(4, 7, 99); // a kind of a later version
    assert_int_equal(take(CT_SECTION_FRAMES), 0);
    NUMBERS(1, 0, 2, 1, UP1, UP2);
    assert_int_equal(take(CT_SECTION_STACKS), 0);
    const struct ct_frame *f = frame_of(stack_named(1), 0);
    assert_int_equal(f->location_count, 2);
    const struct ct_source_location *p = &names.locations[f->first_location];
    assert_int_equal(p[0].line, 10);
    assert_int_equal(p[1].line, 20);
    assert_int_equal(p[0].file, p[1].file);
    assert_memory_equal(names.strings[p[0].function].at, "inlined", 7);
    f = frame_of(stack_named(1), 1);
    assert_int_equal(f->kind, CT_FRAME_END);
    assert_int_equal(f->line, CT_STACK_DEEPER);
    assert_int_equal(names.frames[ct_definitions_id(&names, CT_SECTION_FRAMES, 4)].kind,
                     CT_FRAME_UNKNOWN);
    const size_t places = names.location_count;
    NUMBERS(3, 0, 0x1234, 0, 0, 2, 4, 2, 1, 3, 10, 2, 3, 20); // read again: nothing more
    assert_int_equal(take(CT_SECTION_FRAMES), 0);
    assert_int_equal(names.location_count, places);
    NUMBERS(5, 0, 0x99, 0, 0, 2, 4, CT_MAX_SOURCE_LOCATIONS + 1);
    assert_int_equal(take(CT_SECTION_FRAMES), -1);
    NUMBERS(5, 0, 0x99, 0, 0, 2, 4, 2, 1, 3, 10);
    assert_int_equal(take(CT_SECTION_FRAMES), -1);
    version = 2; // symbolize adds places to chunks of earlier versions, too
    NUMBERS(6, 0, 0x77, 0, 0, 2, 4, 1, 1, 3, 30);
    assert_int_equal(take(CT_SECTION_FRAMES), 0);
    f = &names.frames[ct_definitions_id(&names, CT_SECTION_FRAMES, 6)];
    assert_int_equal(f->location_count, 1);
    assert_int_equal(names.locations[f->first_location].line, 30);
}

TEST(malformed) {
    NUMBERS(1, 0, CT_MAX_STACK + 1, 1);
    assert_int_equal(take(CT_SECTION_STACKS), -1);
    version = 2;
    NUMBERS(1, CT_MAX_STACK + 1);
    assert_int_equal(take(CT_SECTION_STACKS), -1);
    version = CT_FORMAT_VERSION;
    ct_put_varint(&out, 1);
    ct_put_varint(&out, 100); // longer than the section
    assert_int_equal(take(CT_SECTION_STRINGS), -1);
    NUMBERS(1, 0, 5);
    assert_int_equal(take(CT_SECTION_FRAMES), -1);
}

TEST(facts) {
    uint64_t v = 0;
    for (int i = 0; i < 2; i++) {
        ct_put_text(&out, "process.pid", 11);
        ct_put_text(&out, i ? "4712" : "11", i ? 4 : 2);
    }
    ct_put_text(&out, "word", 4);
    ct_put_text(&out, "12x", 3);
    assert_int_equal(take(CT_SECTION_INFO), 0);
    assert_int_equal(ct_definitions_info_number(&names, "process.pid", &v), 1);
    assert_int_equal(v, 4712);
    assert_int_equal(ct_definitions_info_number(&names, "word", &v), 0);
    assert_null(ct_definitions_info(&names, "nothing"));
}

static void label(const char *symbol, const char *want) {
    struct ct_call_sites sites;
    char text[400];
    define_string(1, symbol);
    ct_call_sites_init(&sites, &names);
    const struct ct_frame f = {.pc = 1,
                               .function = ct_definitions_id(&names, CT_SECTION_STRINGS, 1)};
    ct_call_sites_frame_label(&sites, &f, 0, text, sizeof text);
    assert_string_equal(text, want);
    ct_call_sites_free(&sites);
}

TEST(labels) {
    char text[100];
    label("plain_c", "plain_c (?)");
    if (!ct_demangle("_Z1fv", 5, CT_DEMANGLE_FULL, text, sizeof text))
        skip(); // no demangler on this machine
    label("_ZN2at5emptyEN3c108ArrayRefIlEE", "at::empty (?)");
}

// Short names of files that are frames of one trace, in any order.
static void short_names(const char *const (*files)[2], size_t n) {
    struct ct_file_names names_of_files = {0};
    for (size_t i = 0; i < n; i++)
        define_string(10 + i, files[i][0]);
    define_string(9, "/no/file/functional.py"); // a string that is no file
    for (size_t i = 0; i < n; i++) {
        NUMBERS(1 + i, 1, 9, 10 + i, 1);
        assert_int_equal(take(CT_SECTION_FRAMES), 0);
    }
    for (size_t i = 0; i < n; i++) {
        const uint32_t id = ct_definitions_id(&names, CT_SECTION_STRINGS, 10 + i);
        const size_t at = ct_file_names_offset(&names_of_files, &names, id);
        assert_string_equal(files[i][0] + at, files[i][1]);
    }
    ct_file_names_free(&names_of_files);
}

TEST(files_are_told_apart) {
    static const char *const files[][2] = {
        {"/v/site-packages/torch/nn/functional.py", "nn/functional.py"},
        {"/v/site-packages/torch/linalg/functional.py", "linalg/functional.py"},
        {"/v/site-packages/my-functional.py", "my-functional.py"}, // sorts between them as bytes
        {"functional.py", "functional.py"},                        // the end of others, but whole
        {"/v/site-packages/torch/optim/adam.py", "adam.py"},
        {"/v/site-packages/torch/optim/__init__.py", "optim/__init__.py"},
        {"/a/vllm/v1/worker/utils.py", "v1/worker/utils.py"},
        {"/a/vllm/v2/worker/utils.py", "v2/worker/utils.py"},
        {"/a/vllm/utils.py", "vllm/utils.py"},
        {"/one.py", "/one.py"},
        {"x/one.py", "x/one.py"},
        {"three.py", "three.py"}, // as bytes, the next one sorts before "/"
        {"/v/-three.py", "-three.py"},
        {"q/three.py", "q/three.py"},
        {"<string>", "<string>"},
        {"/v/two", "v/two"},
        {"/w/two", "w/two"},
        {"/v/ntwo", "ntwo"},
        {"/v/__init__.py", "v/__init__.py"},
        {"/", ""},
    };
    short_names(files, sizeof files / sizeof *files);
}

TEST(one_file_needs_no_folder) {
    static const char *const files[][2] = {
        {"/v/site-packages/torch/nn/functional.py", "functional.py"}};
    short_names(files, 1);
}

// A stack of frames, innermost first: 'n' a native function, 'u' a native frame without a name, 'p'
// a line of Python, 'x' noise, 'o' ours, 'w' a line of Python that is noise, 'i' a native function
// with a function and noise inlined into it, 'k' a native function of an installed package, 'e' an
// end.
static uint32_t stack_like(const char *kinds) {
    const size_t n = strlen(kinds);
    uint64_t payload[3 + 100] = {0, n, names.node_count * 100}, before = 0;
    define_string(1, "/lib/app.so");
    define_string(2, "work");
    define_string(3, "c10::alloc");
    define_string(4, "cutrace_call");
    define_string(5, "m.py");
    define_string(6, "half");
    define_string(7, "/v/site-packages/torch/_ops.py");
    define_string(8, "/v/site-packages/cupy/_core.so");
    NUMBERS(1, 1, 0, 0, 1 << 30, 0);
    NUMBERS(2, 8, 1 << 30, 1 << 30, UINT64_C(1) << 31, 0);
    assert_int_equal(take(CT_SECTION_MODULES), 0);
    for (size_t i = 0; i < n; i++) {
        const uint64_t id = i + 1, pc = 0x1000 + i;
        switch (kinds[n - 1 - i]) {
        case 'n':
            NUMBERS(id, 0, pc, 1, pc, 2, 0);
            break;
        case 'u':
            NUMBERS(id, 0, 0x100 + pc, 1, 0x100 + pc, 0, 0);
            break;
        case 'x':
            NUMBERS(id, 0, 0x200 + pc, 1, 0x200 + pc, 3, 0);
            break;
        case 'o':
            NUMBERS(id, 0, 0x300 + pc, 1, 0x300 + pc, 4, 0);
            break;
        case 'i':
            NUMBERS(id, 0, 0x400 + pc, 1, 0x400 + pc, 2, 0, 3, 6, 5, 10, 3, 5, 20, 2, 5, 30);
            break;
        case 'k':
            NUMBERS(id, 0, (1 << 30) + pc, 2, pc, 2, 0);
            break;
        case 'p':
            NUMBERS(id, 1, 2, 5, 100 + i);
            break;
        case 'w':
            NUMBERS(id, 1, 2, 7, 200 + i);
            break;
        default:
            NUMBERS(id, 2, CT_STACK_LOST);
        }
        payload[3 + i] = ct_zigzag(id - before);
        before = id;
    }
    assert_int_equal(take(CT_SECTION_FRAMES), 0);
    put_numbers(1, payload, 3 + n);
    assert_int_equal(take(CT_SECTION_STACKS), 0);
    return stack_named(1);
}

// Which frames of such a stack views show: their places from the innermost one on, as digits.
static void shows(const char *kinds, int all_frames, const char *want, uint32_t hidden) {
    struct ct_call_sites sites;
    char got[100] = "";
    const uint32_t stack = stack_like(kinds),
                   depth = ct_definitions_stack_node(&names, stack)->depth;
    ct_call_sites_init(&sites, &names);
    sites.all_frames = all_frames;
    struct ct_shown_frames a = ct_call_sites_shown_frames(&sites, stack);
    for (size_t i = 0; a.node; ct_call_sites_next_frame(&a))
        got[i++] = (char)('0' + depth - names.nodes[a.node].depth);
    assert_string_equal(got, want);
    a = ct_call_sites_shown_frames(&sites, stack);
    assert_int_equal(ct_call_sites_count_hidden(&a), hidden);
    ct_call_sites_free(&sites);
}

TEST(who_asked) {
    shows("oxnxpx", 0, "24", 4);
    shows("oxnxpx", 1, "012345", 0);
    shows("xxuxp", 0, "4", 4); // no name: only where nothing else has one
    shows("xuxu", 0, "13", 2);
    shows("oixp", 0, "113", 2); // a frame with an inlined function is shown twice, and hidden once
    shows("oix", 1, "01112", 0);
    shows("oxx", 0, "1", 2); // noise alone: the innermost one
    shows("xwxpw", 0, "3", 4);
    shows("xwxwu", 0, "4", 4);  // noise, and a frame without a name
    shows("oxwxw", 0, "24", 3); // noise alone: lines of Python
    shows("oxwxw", 1, "01234", 0);
    shows("oxkkpk", 0, "4", 5); // a package works for its caller
    shows("oxkkxk", 0, "235", 3);
    shows("oxukwx", 0, "3", 5); // a name is better than none, and than a line of noise
    shows("oo", 0, "0", 1);
    shows("xpe", 0, "1", 1);
    shows("xpe", 1, "01", 0);
    shows("xxe", 0, "0", 1);
    shows("e", 0, "0", 0);
    shows("e", 1, "0", 0);
    shows("uuuuuuuuup", 0, "9", 9);
}

TEST(noise_is_what_the_table_says) {
    const struct {
        enum ct_noise_subject what;
        const char *name;
        enum ct_noise_group group;
    } all[] = {
        {CT_NOISE_MODULE, "libcutrace.so", CT_NOISE_OURS},
        {CT_NOISE_MODULE, "libcuda.so.1", CT_NOISE_CUDA},
        {CT_NOISE_MODULE, "libcudart.so.13", CT_NOISE_CUDA},
        {CT_NOISE_MODULE, "libcudnn.so.9", CT_NOISE_NONE},
        {CT_NOISE_MODULE, "libc.so.6", CT_NOISE_C},
        {CT_NOISE_MODULE, "libc10_cuda.so", CT_NOISE_TORCH},
        {CT_NOISE_MODULE, "libtorch_python.so", CT_NOISE_TORCH},
        {CT_NOISE_MODULE, "_vllm_fa3_C.abi3.so", CT_NOISE_NONE},
        {CT_NOISE_MODULE, "/x/site-packages/vllm/_vllm_fa3_C.abi3.so", CT_NOISE_PACKAGES},
        {CT_NOISE_MODULE, "/x/site-packages/torch/lib/libc10_cuda.so", CT_NOISE_TORCH},
        {CT_NOISE_MODULE, "/x/site-packages/nvidia/cublas/lib/libcublas.so.12", CT_NOISE_NONE},
        {CT_NOISE_MODULE, "/x/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12",
         CT_NOISE_CUDA},
        {CT_NOISE_MODULE, "python3.12", CT_NOISE_PYTHON},
        {CT_NOISE_MODULE, "libpython3.9.so.1.0", CT_NOISE_PYTHON},
        {CT_NOISE_MODULE, "pythonista", CT_NOISE_NONE},
        {CT_NOISE_FUNCTION, "libcuda.so.1", CT_NOISE_NONE},
        {CT_NOISE_FUNCTION, "_PyEval_EvalFrameDefault", CT_NOISE_PYTHON},
        {CT_NOISE_FUNCTION, "my_PyEval_EvalFrameDefault", CT_NOISE_NONE},
        {CT_NOISE_FUNCTION, "clone", CT_NOISE_C},
        {CT_NOISE_FUNCTION, "clone_tensor", CT_NOISE_NONE},
        {CT_NOISE_FUNCTION, "at::_ops::zeros::call", CT_NOISE_TORCH},
        {CT_NOISE_FUNCTION, "torch::autograd::generated::MmBackward0::apply", CT_NOISE_NONE},
        {CT_NOISE_FUNCTION, "torch::autograd::THPVariable_zeros", CT_NOISE_TORCH},
        {CT_NOISE_FILE, "/usr/lib/python3.11/ctypes/__init__.py", CT_NOISE_FFI},
        {CT_NOISE_FILE, "/home/me/myctypes/__init__.py", CT_NOISE_NONE},
        {CT_NOISE_FILE, "<frozen importlib._bootstrap_external>", CT_NOISE_IMPORT},
        {CT_NOISE_FILE, "/x/torch/nn/modules/module.py", CT_NOISE_TORCH},
        {CT_NOISE_FILE, "/x/torch/nn/modules/linear.py", CT_NOISE_NONE},
        {CT_NOISE_FILE, "/x/site-packages/torch/nn/modules/linear.py", CT_NOISE_NONE},
        {CT_NOISE_FILE, "/x/site-packages/torch/optim/adam.py", CT_NOISE_NONE},
        {CT_NOISE_FILE, "/x/site-packages/torch/optim/optimizer.py", CT_NOISE_TORCH},
        {CT_NOISE_FILE, "/x/site-packages/torch/some/new_file.py", CT_NOISE_TORCH},
        {CT_NOISE_FILE, "/home/me/torch/train.py", CT_NOISE_NONE}, // somebody's own folder
        {CT_NOISE_FILE, "/v/vllm/model_executor/layers/linear.py", CT_NOISE_ALLOCATORS},
        {CT_NOISE_FILE, "/v/vllm/model_executor/layers/sampler.py", CT_NOISE_NONE},
        {CT_NOISE_FILE, "/v/vllm/model_executor/models/llama.py", CT_NOISE_NONE},
        {CT_NOISE_FILE, "/v/vllm/model_executor/parameter.py", CT_NOISE_ALLOCATORS},
        {CT_NOISE_FILE, "/v/vllm/v1/worker/gpu_model_runner.py", CT_NOISE_NONE},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (ct_noise_classify(all[i].what, all[i].name) != all[i].group)
            fail_msg("%s", all[i].name);
}

TEST(native_frames_by_module_and_function) {
    const struct {
        const char *module, *function;
        enum ct_noise_group group;
    } all[] = {
        {"libcutrace.so", "cuMemAlloc_v2", CT_NOISE_OURS},
        {"libtorch_cpu.so", "torch::autograd::generated::MmBackward0::apply", CT_NOISE_NONE},
        {"libtorch_cpu.so", "torch::autograd::Engine::evaluate_function", CT_NOISE_TORCH},
        {"libtorch_cuda.so", "", CT_NOISE_TORCH},
        {"libtorch_cuda.so", "ncclCommInitRank", CT_NOISE_NONE},
        {"libc.so.6", "ncclCommInitRank", CT_NOISE_NONE},
        {"/x/dist-packages/cupy/core.so", "cupy::take", CT_NOISE_PACKAGES},
        {"/x/dist-packages/cupy/core.so", "", CT_NOISE_PACKAGES},
        {"/x/dist-packages/cupy/core.so", "PyObject_Call", CT_NOISE_PYTHON},
        {"/x/dist-packages/cupy/core.so", "ncclCommInitRank", CT_NOISE_NONE},
        {"app", "at::native::empty", CT_NOISE_TORCH},
        {"app", "", CT_NOISE_NONE},
        {"", "", CT_NOISE_NONE},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (ct_noise_classify_native(all[i].module, all[i].function) != all[i].group)
            fail_msg("%s %s", all[i].module, all[i].function);
    assert_int_equal(ct_noise_classify_python("<string>", "execution_fn"), CT_NOISE_ALLOCATORS);
    assert_int_equal(ct_noise_classify_python("<string>", "<module>"), CT_NOISE_NONE);
    assert_int_equal(ct_noise_classify_python("<eval_with_key>.7", "forward"), CT_NOISE_TORCH);
}

// The names are those that c++filt gives, up to their template arguments.
TEST(plain_names_of_symbols) {
    static const char *const names_of[][2] = {
        {"_ZN3c104cuda20CUDACachingAllocator6Native8allocateEm",
         "c10::cuda::CUDACachingAllocator::Native::allocate"},
        {"_ZN5torch21handle_torch_functionERNS_10PythonArgsEP7_objectS3_S3_PKcS5_",
         "torch::handle_torch_function"},
        {"_ZNK2at6Tensor3addERKS0_RKN3c106ScalarE", "at::Tensor::add"},
        {"_ZN2at6native10gpu_kernelIZNS0_4fillEvEUlvE_EEvRKT_", "at::native::gpu_kernel"},
        {"_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector"},
        {"_ZSt4movev", "std::move"},
        {"_Z6kernelPfi", "kernel"},
        {"_ZL6kernelPfi", "kernel"},
        {"_ZN12_GLOBAL__N_16kernelEv", "_GLOBAL__N_1::kernel"},
        {"cudaMalloc", "cudaMalloc"},
        {"_ZZ4mainENKUlvE_clEv", "main"},
        {"_ZZN3app3runEvENKUlvE_clEv", "app::run"},
        {"_Z", "_Z"},
        {"_ZZ", "_ZZ"},
        {"_ZZN", "_ZZN"},
        {"_ZN", "_ZN"},
        {"_ZN9999999999999999999999foo", "_ZN9999999999999999999999foo"},
        {"_ZN3foo99bar", "foo"},
    };
    for (size_t i = 0; i < sizeof names_of / sizeof *names_of; i++) {
        char name[256], little[12];
        const char *symbol = names_of[i][0];
        ct_noise_plain_name(symbol, strlen(symbol), name, sizeof name);
        assert_string_equal(name, names_of[i][1]);
        for (size_t n = 0; n <= strlen(symbol); n++) { // cut anywhere, into little room
            char *exact = test_malloc(n + 1);
            memcpy(exact, symbol, n);
            ct_noise_plain_name(exact, n, little, sizeof little);
            assert_true(strlen(little) < sizeof little);
            test_free(exact);
        }
    }
}
