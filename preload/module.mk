# SPDX-License-Identifier: Apache-2.0
# libcutrace.so: every preload/*/*.c and the assembly of this machine. The recording half knows no CUDA type: its
# include path has no cuda.h, and the unit tests link it alone.

PRELOAD_ROOMS := intercept record stack write store base
PRELOAD_SOURCES := $(filter-out preload/base/glibc_compat.c,$(wildcard $(PRELOAD_ROOMS:%=preload/%/*.c)))
PRELOAD_RECORDING := $(filter-out preload/intercept/%,$(PRELOAD_SOURCES))
PRELOAD_ASSEMBLY := $(wildcard preload/intercept/*_$(ARCH).S)

PRELOAD_RECORDING_OBJS := $(PRELOAD_RECORDING:%.c=$(BUILD)/%.o)
PRELOAD_OBJS := $(PRELOAD_SOURCES:%.c=$(BUILD)/%.o) $(PRELOAD_ASSEMBLY:%.S=$(BUILD)/%.o)

# A few bytes of thread-local storage in the static block: no call, no allocation at a thread's first access.
PRELOAD_TLS := -ftls-model=initial-exec

# One event goes through small functions of a dozen files: put together by the linker, they cost a fifth less. In one
# piece, because the versions that glibc_symvers.h asks for hold for the piece that the assembler sees.
PRELOAD_LTO := $(if $(SAN)$(COVERAGE)$(DEBUG),,$(if $(findstring gcc,$(shell $(CC) --version | head -n 1)),-flto=auto -ffat-lto-objects))
PRELOAD_LTO_LINK := $(if $(PRELOAD_LTO),-flto=auto -flto-partition=one $(OPTIMISE))

$(PRELOAD_RECORDING_OBJS): $(BUILD)/preload/%.o: preload/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(PRELOAD_CFLAGS) $(PRELOAD_TLS) $(PRELOAD_LTO) -Ipreload $(UNWIND_CFLAGS) $(DEPFLAGS) -c $< -o $@
$(BUILD)/preload/%.o: preload/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(PRELOAD_CFLAGS) $(PRELOAD_TLS) $(PRELOAD_LTO) $(PRELOAD_INCLUDES) $(DEPFLAGS) -c $< -o $@
$(BUILD)/preload/%.o: preload/%.S
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -fPIC -Ipreload $(DEPFLAGS) -c $< -o $@

# The call-backs' parameters are CUPTI's.
$(BUILD)/preload/intercept/cupti.o $(BUILD)/preload/intercept/cupti_calls.o: PRELOAD_INCLUDES += $(CUPTI_CFLAGS)

# libunwind tries addresses out through a pipe; ours does without descriptors (stack/unwind.c).
PRELOAD_ARCHIVES := $(BUILD)/preload/libunwind.a $(GENERATED)/libzstd.a
$(BUILD)/preload/libunwind.a: $(GENERATED)/libunwind.a
	@mkdir -p $(@D)
	$(OBJCOPY) --redefine-sym pipe2=ct_unwind_access_pipe2 --redefine-sym read=ct_unwind_access_read \
	    --redefine-sym write=ct_unwind_access_write --redefine-sym syscall=ct_unwind_access_syscall $< $@
$(GENERATED)/libunwind.a $(GENERATED)/libzstd.a: $(BUILD)/dependencies.mk ;

# The symbols that libcutrace.so exports, from the hook table: the expected output of nm -D.
EXPORTS := $(BUILD)/exports.txt
$(EXPORTS): $(wildcard preload/intercept/*.def) scripts/print-exports.h
	@mkdir -p $(@D)
	@$(CC) -E -P -x c -DCT_HOOKS_DEF='"$(CURDIR)/preload/intercept/hooks.def"' \
	    -DCUDA_VERSION=$$(sed -n 's/^#define CUDA_VERSION *//p' $(CUDA_INC)/cuda.h) scripts/print-exports.h | \
	    sed -n 's/.*CT_EXPORT \([A-Za-z_0-9]*\).*/\1/p' | LC_ALL=C sort -u >$@
print-exports: $(EXPORTS)
	@cat $(EXPORTS)
TESTS_native += $(EXPORTS)
TESTS_cross += $(EXPORTS)

# The version script: exported is what the hook table names, and nothing else.
$(BUILD)/preload/exports.map: $(EXPORTS)
	@mkdir -p $(@D)
	{ echo '{'; echo ' global:'; sed 's/.*/  &;/' $(EXPORTS); echo ' local: *;'; echo '};'; } >$@

$(BUILD)/libcutrace.so: $(PRELOAD_OBJS) $(BUILD)/preload/base/glibc_compat.o $(PRELOAD_ARCHIVES) $(BUILD)/preload/exports.map
	$(CC) $(filter-out -fno-lto,$(LDFLAGS_ALL)) $(PRELOAD_LTO_LINK) $(PRELOAD_LDFLAGS) -Wl,-z,nodelete -Wl,--version-script=$(BUILD)/preload/exports.map \
	    $(PRELOAD_OBJS) $(PRELOAD_LIBS) -o $@

-include $(wildcard $(BUILD)/preload/*/*.d)
