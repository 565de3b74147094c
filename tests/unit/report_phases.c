// SPDX-License-Identifier: Apache-2.0
// Rules by which frames name phases and components: patterns, the order of frames, rules of a file,
// and very many stacks.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../lib/unit.h"
#include "analyze/phase_follow.h"
#include "symbols/phases.h"

#define WORKER "/usr/lib/python3/dist-packages/vllm/v1/worker/gpu_worker.py"
#define RUNNER "/usr/lib/python3/dist-packages/vllm/v1/worker/gpu_model_runner.py"

static struct ct_definitions names;
static struct ct_phase_rules rules;
static struct ct_phases phases;

BEFORE_EACH {
    ct_definitions_init(&names);
    rules = (struct ct_phase_rules){0};
    ct_phases_init(&phases, &names, &rules);
    return 0;
}

AFTER_EACH {
    ct_phases_free(&phases);
    ct_phase_rules_free(&rules);
    ct_definitions_free(&names);
    return 0;
}

static uint32_t add_string(const char *text) {
    CT_HEAP_GROW(names.strings, names.string_count, names.string_cap);
    names.strings[names.string_count] = (struct ct_string){text, (uint32_t)strlen(text)};
    return (uint32_t)names.string_count++;
}

static uint32_t add_frame(const char *file, const char *function) {
    const struct ct_frame f = {
        .kind = CT_FRAME_PYTHON, .file = add_string(file), .function = add_string(function)};
    CT_HEAP_GROW(names.frames, names.frame_count, names.frame_cap);
    names.frames[names.frame_count] = f;
    return (uint32_t)names.frame_count++;
}

static uint32_t add_node(uint32_t parent, uint32_t frame) {
    CT_HEAP_GROW(names.nodes, names.node_count, names.node_cap);
    names.nodes[names.node_count] = (struct ct_call_tree_node){
        .parent = parent, .frame = frame, .depth = names.nodes[parent].depth + 1};
    return (uint32_t)names.node_count++;
}

static uint32_t add_stack(uint32_t node) {
    CT_HEAP_GROW(names.stacks, names.stack_count, names.stack_cap);
    names.stacks[names.stack_count] = node;
    return (uint32_t)names.stack_count++;
}

struct call {
    const char *file, *function;
};

// A stack of these calls, the outermost first.
static uint32_t make_stack(const struct call *calls, size_t n) {
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++)
        node = add_node(node, add_frame(calls[i].file, calls[i].function));
    return add_stack(node);
}

#define STACK(...)                                 \
    make_stack((const struct call[]){__VA_ARGS__}, \
               sizeof((const struct call[]){__VA_ARGS__}) / sizeof(struct call))

static void assert_phase(uint32_t stack, enum ct_phase phase) {
    assert_string_equal(ct_phase_name(ct_phases_find(&phases, stack).phase), ct_phase_name(phase));
}

static void assert_component(uint32_t stack, enum ct_component component) {
    assert_string_equal(ct_component_name(ct_phases_find_component(&phases, stack)),
                        ct_component_name(component));
}

static int fits_file(const char *pattern, const char *path) {
    const struct ct_phase_rule rule = {.file = pattern};
    return ct_phase_rule_fits_file(&rule, path, strlen(path));
}

TEST(patterns_fit_the_end_of_a_path) {
    char deep[2000];
    assert_true(fits_file("a/b.py", "a/b.py"));
    assert_true(fits_file("a/b.py", "/x/a/b.py"));
    assert_false(fits_file("a/b.py", "/x/aa/b.py")); // "aa" is another folder
    assert_false(fits_file("a/b.py", "/x/a/b.pyc"));
    assert_false(fits_file("a/b.py", "b.py"));
    assert_true(fits_file("a/b*.py", "/x/a/bcd.py"));
    assert_true(fits_file("a/b*.py", "/x/a/b.py"));
    assert_true(fits_file("a/*", "/x/a/c/d.py"));
    assert_false(fits_file("a/*", "/x/ba/c/d.py"));
    assert_true(fits_file("*", "anything"));
    assert_true(fits_file("*", ""));
    assert_true(fits_file("lib*.so*", "/lib/libnccl.so.2"));
    assert_true(fits_file("a*b*c", "/aXbXbXc"));
    assert_false(fits_file("a*b*c", "/aXbXbXd"));
    memset(deep, '/', sizeof deep - 8);
    strcpy(deep + sizeof deep - 8, "a/b.py");
    assert_true(fits_file("a/b.py", deep));
    memset(deep, 'x', sizeof deep - 1);
    assert_false(fits_file("a/b.py", deep));
    assert_false(fits_file("x*x*x*x*x*x*x*y", deep));
}

TEST(the_outermost_function_is_the_phase) {
    const uint32_t profiled =
        STACK({"user.py", "<module>"}, {WORKER, "Worker.determine_available_memory"},
              {RUNNER, "GPUModelRunner.profile_run"}, {RUNNER, "GPUModelRunner.execute_model"},
              {WORKER, "Worker.execute_model"});
    assert_phase(profiled, CT_PHASE_PROFILE);
    const uint32_t served = STACK({WORKER, "execute_model"}, {RUNNER, "GPUModelRunner._sample"});
    assert_phase(served, CT_PHASE_SERVE); // (the name of Python before 3.11)
    assert_string_equal(ct_phases_title(&(struct ct_phase_at){.phase = CT_PHASE_SERVE,
                                                              .framework = CT_FRAMEWORK_VLLM})
                            .text,
                        "vLLM serving");
    assert_string_equal(ct_framework_name(ct_phases_find(&phases, served).framework), "vllm");
    assert_phase(STACK({WORKER, "Worker.compile_or_warm_up_model"}), CT_PHASE_WARMUP);
    assert_phase(STACK({WORKER, "Worker.compile_or_warm_up_model"},
                       {RUNNER, "GPUModelRunner.capture_model"}),
                 CT_PHASE_GRAPHS);
    assert_phase(STACK({WORKER, "Worker.compile_or_warm_up_model"},
                       {RUNNER, "GPUModelRunner._dummy_sampler_run"}),
                 CT_PHASE_WARMUP_SAMPLER);
    assert_phase(STACK({"/home/me/execute_model.py", "execute_model"}), CT_PHASE_UNKNOWN);
    assert_phase(STACK({"/home/me/other/gpu_worker.py", "load_model"}), CT_PHASE_UNKNOWN);
    assert_phase(0, CT_PHASE_UNKNOWN);
}

TEST(what_surrounds_a_phase_gives_way) {
    const char *core = "/x/vllm/v1/engine/core.py", *trainer = "/x/transformers/trainer.py";
    assert_phase(STACK({core, "run_engine_core"}), CT_PHASE_OTHER);
    assert_phase(STACK({core, "run_engine_core"}, {WORKER, "Worker.load_model"}), CT_PHASE_WEIGHTS);
    assert_phase(STACK({trainer, "Trainer._inner_training_loop"}), CT_PHASE_TRAIN_OTHER);
    const uint32_t rollout =
        STACK({trainer, "Trainer._inner_training_loop"}, {WORKER, "Worker.execute_model"});
    assert_phase(rollout, CT_PHASE_SERVE);
    const uint32_t forward = STACK({trainer, "Trainer._inner_training_loop"},
                                   {"/x/torch/nn/modules/module.py", "Module._call_impl"});
    assert_phase(forward, CT_PHASE_TRAIN_FORWARD);
    assert_int_equal(ct_phases_find(&phases, forward).framework, CT_FRAMEWORK_TRANSFORMERS);
    assert_phase(STACK({"/x/torch/_tensor.py", "Tensor.backward"}), CT_PHASE_TRAIN_BACKWARD);
    assert_phase(
        STACK({"/x/torch/optim/optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper"},
              {"/x/torch/optim/lbfgs.py", "LBFGS.step"},
              {"/x/torch/_tensor.py", "Tensor.backward"}),
        CT_PHASE_TRAIN_BACKWARD); // the closure
}

TEST(the_innermost_rule_is_the_component) {
    const char *utils = "/x/vllm/v1/worker/utils.py", *lora = "/x/vllm/lora/layers/base_linear.py";
    const uint32_t cache =
        STACK({WORKER, "Worker.initialize_from_config"},
              {RUNNER, "GPUModelRunner.initialize_kv_cache"}, {utils, "allocate_kv_cache"});
    assert_component(cache, CT_COMPONENT_KV_CACHE);
    // that of the profile run is thrown away
    assert_component(STACK({WORKER, "Worker.determine_available_memory"},
                           {RUNNER, "GPUModelRunner.profile_cudagraph_memory"},
                           {RUNNER, "GPUModelRunner.initialize_kv_cache_tensors"},
                           {utils, "allocate_kv_cache"}),
                     CT_COMPONENT_CUDA_GRAPHS);
    assert_component(STACK({WORKER, "Worker.load_model"}, {lora, "create_lora_weights"}),
                     CT_COMPONENT_LORA);
    assert_component(STACK({WORKER, "Worker.execute_model"}, {lora, "apply"}),
                     CT_COMPONENT_ACTIVATIONS);
    assert_component(STACK({WORKER, "Worker.load_model"}), CT_COMPONENT_WEIGHTS);
    assert_component(STACK({"user.py", "main"}), CT_COMPONENT_OTHER);
    assert_component(0, CT_COMPONENT_OTHER);
}

// ---- rules of a file ----------------------------------------------------------------------------

static int read_rules(const char *text, struct ct_error *error) {
    char path[] = "/tmp/phase-rules-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    ct_phase_rules_free(&rules);
    const int status = ct_phase_rules_read(&rules, path, error);
    unlink(path);
    return status;
}

TEST(rules_of_a_file_come_first) {
    struct ct_error error;
    assert_int_equal(read_rules("# mine\n\n"
                                "phase, warmup ,vllm,,user.py,prepare,\r\n"
                                "phase,idle,none,serve,user.py,wait,a source, with a comma\n"
                                "component,kv-cache,,,user.py,make_*",
                                &error),
                     0);
    assert_int_equal(rules.count, 3);
    assert_string_equal(rules.list[1].source, "a source, with a comma");
    assert_phase(STACK({"/x/user.py", "prepare"}, {WORKER, "Worker.load_model"}), CT_PHASE_WARMUP);
    assert_phase(STACK({"/x/user.py", "wait"}), CT_PHASE_UNKNOWN);
    assert_phase(STACK({WORKER, "Worker.execute_model"}, {"/x/user.py", "wait"}), CT_PHASE_IDLE);
    assert_component(STACK({WORKER, "Worker.load_model"}, {"/x/user.py", "make_it"}),
                     CT_COMPONENT_KV_CACHE);
}

TEST(a_bad_line_is_named) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"phase,weights,vllm,,a.py\n", ":1: a rule has 6 or 7 fields, not those of 'phase'"},
        {"\nphase,wieghts,vllm,,a.py,f\n", ":2: unknown phase 'wieghts'"},
        {"phase,weights,vlm,,a.py,f\n", ":1: unknown framework 'vlm'"},
        {"phase,weights,vllm,serving,a.py,f\n", ":1: unknown phase 'serving'"},
        {"component,weight,,,a.py,f\n", ":1: unknown component 'weight'"},
        {"phases,weights,vllm,,a.py,f\n", ":1: neither phase nor component: 'phases'"},
        {"phase,weights,vllm,,,f\n", ":1: an empty pattern"},
    };
    struct ct_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_rules(cases[i].text, &error), -1);
        assert_int_equal(error.status, CT_EXIT_USAGE);
        assert_non_null(strstr(error.text, cases[i].says));
        assert_null(strchr(error.text, '\n'));
    }
    ct_phase_rules_free(&rules);
    assert_int_equal(ct_phase_rules_read(&rules, "/nowhere/rules", &error), -1);
}

// ---- a hostile trace ----------------------------------------------------------------------------

// One chain of a million callers: a walk over each stack would be half a billion steps of a
// million million.
TEST(a_million_stacks_are_one_pass) {
    enum { STACKS = 1000000 };
    const uint32_t load = add_frame(WORKER, "Worker.load_model");
    const uint32_t plain = add_frame("/x/user.py", "recurse");
    uint32_t node = add_node(0, load);
    const uint32_t first = (uint32_t)names.stack_count;
    for (unsigned i = 0; i < STACKS; i++)
        add_stack(node = add_node(node, plain));
    for (unsigned i = 0; i < STACKS; i++) {
        assert_int_equal(ct_phases_find(&phases, first + i).phase, CT_PHASE_WEIGHTS);
        assert_int_equal(ct_phases_find_component(&phases, first + i), CT_COMPONENT_WEIGHTS);
    }
    assert_true(ct_phases_has_any(&phases));
}

// A checkpoint restores the ranges that are open: no event begins them.
TEST(a_range_that_was_restored_is_a_phase) {
    struct ct_open_ranges open = {.used = 0};
    struct ct_phase_follow follow = {.phases = &phases, .open = &open};
    struct ct_event push = {.present = 0}, alloc = {.present = 0};
    CT_SET(&push, op, CT_OP_RANGE_PUSH);
    CT_SET(&push, thread, 1);
    CT_SET(&push, text, add_string("warm up"));
    CT_SET(&alloc, op, CT_OP_ALLOC);
    CT_SET(&alloc, thread, 1);
    assert_int_equal(ct_phase_follow_event(&follow, &alloc)->phase, CT_PHASE_UNKNOWN);
    ct_open_ranges_apply(&open, &push, 1);
    assert_int_equal(ct_phase_follow_event(&follow, &alloc)->phase, CT_PHASE_RANGE);
    ct_phase_follow_free(&follow);
}
