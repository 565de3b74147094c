# SPDX-License-Identifier: Apache-2.0
# libcutrace.so: every preload/*.c and the assembly of this machine. The recording half knows no CUDA type: its
# include path has no cuda.h, and the unit tests link it alone.

PRELOAD_RECORDING := chunk devices dictionary info memory modules names options output pattern process recorder \
    refusal ring shield stacks symbols text thread unwind_memory writer
PRELOAD_SOURCES := $(basename $(notdir $(wildcard preload/*.c)))
PRELOAD_INTERCEPTION := $(filter-out $(PRELOAD_RECORDING) glibc_compat,$(PRELOAD_SOURCES))
PRELOAD_ASSEMBLY := $(basename $(notdir $(wildcard preload/*_$(ARCH).S)))

PRELOAD_RECORDING_OBJS := $(PRELOAD_RECORDING:%=$(BUILD)/preload/%.o)
PRELOAD_OBJS := $(PRELOAD_RECORDING_OBJS) $(PRELOAD_INTERCEPTION:%=$(BUILD)/preload/%.o) \
    $(PRELOAD_ASSEMBLY:%=$(BUILD)/preload/%.o)

# A few bytes of thread-local storage in the static block: no call, no allocation at a thread's first access.
PRELOAD_TLS := -ftls-model=initial-exec

$(PRELOAD_RECORDING_OBJS): $(BUILD)/preload/%.o: preload/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(PRELOAD_CFLAGS) $(PRELOAD_TLS) -Ipreload $(UNWIND_CFLAGS) $(DEPFLAGS) -c $< -o $@
$(BUILD)/preload/%.o: preload/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(PRELOAD_CFLAGS) $(PRELOAD_TLS) $(PRELOAD_INCLUDES) $(DEPFLAGS) -c $< -o $@
$(BUILD)/preload/%.o: preload/%.S
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -fPIC -Ipreload $(DEPFLAGS) -c $< -o $@

# libunwind tries addresses out through a pipe; ours does without descriptors (unwind_memory.c).
PRELOAD_ARCHIVES := $(BUILD)/preload/libunwind.a $(GENERATED)/libzstd.a
$(BUILD)/preload/libunwind.a: $(GENERATED)/libunwind.a
	@mkdir -p $(@D)
	$(OBJCOPY) --redefine-sym pipe2=ct_unw_pipe2 --redefine-sym read=ct_unw_read \
	    --redefine-sym write=ct_unw_write --redefine-sym syscall=ct_unw_syscall $< $@
$(GENERATED)/libunwind.a $(GENERATED)/libzstd.a: $(BUILD)/dependencies.mk ;

# The version script: exported is what the hook table names, and nothing else.
$(BUILD)/preload/exports.map: $(wildcard preload/*.def include/cutrace/*.h) scripts/print-exports.h
	@mkdir -p $(@D)
	{ echo '{'; if [ -f preload/hooks.def ]; then echo ' global:'; $(MAKE) --no-print-directory -s print-exports | \
	    sed 's/.*/  &;/'; fi; echo ' local: *;'; echo '};'; } >$@

$(BUILD)/libcutrace.so: $(PRELOAD_OBJS) $(BUILD)/preload/glibc_compat.o $(PRELOAD_ARCHIVES) $(BUILD)/preload/exports.map
	$(CC) $(LDFLAGS_ALL) $(PRELOAD_LDFLAGS) -Wl,-z,nodelete -Wl,--version-script=$(BUILD)/preload/exports.map \
	    $(PRELOAD_OBJS) $(PRELOAD_LIBS) -o $@

-include $(wildcard $(BUILD)/preload/*.d)
