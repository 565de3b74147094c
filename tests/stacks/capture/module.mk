# SPDX-License-Identifier: Apache-2.0
# A library that captures the stack at each allocation of a program, and programs with frames of all kinds.

CAPTURE := $(BUILD)/tests/stacks/capture
CAPTURE_FLAGS_O0 := -O0 -fno-omit-frame-pointer
CAPTURE_FLAGS_O2 := -O2 -fomit-frame-pointer
CAPTURE_FLAGS_O2fp := -O2 -fno-omit-frame-pointer
CAPTURE_KINDS := O0 O2 O2fp
CAPTURE_PROGRAMS := libcapture.so $(CAPTURE_KINDS:%=frames_%) $(CAPTURE_KINDS:%=exceptions_%) \
    plugin_40.so plugin_72.so plugin_136.so
CAPTURE_CFLAGS := -std=gnu11 -g -Wall -Wextra -pthread

# (that of tests/unit is read later than this file)
CAPTURE_RECORDING := $(PRELOAD_RECORDING_OBJS) $(BUILD)/preload/base/glibc_compat.o $(PRELOAD_ARCHIVES)

TESTS_native += $(CAPTURE_PROGRAMS:%=$(CAPTURE)/%)

$(CAPTURE)/libcapture.so: tests/stacks/capture/libcapture.c $(CAPTURE_RECORDING)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -fPIC -fvisibility=hidden $(PRELOAD_TLS) -Ipreload -shared -o $@ $< \
	    $(CAPTURE_RECORDING) $(LDFLAGS_ALL) -Wl,--exclude-libs,ALL -Wl,--wrap=ct_walk_stack -ldl
$(CAPTURE_KINDS:%=$(CAPTURE)/frames_%): $(CAPTURE)/frames_%: tests/stacks/capture/frames.c
	@mkdir -p $(@D)
	$(CC) $(CAPTURE_CFLAGS) $(CAPTURE_FLAGS_$*) -o $@ $< -ldl
$(CAPTURE_KINDS:%=$(CAPTURE)/exceptions_%): $(CAPTURE)/exceptions_%: tests/stacks/capture/exceptions.cpp
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -g -Wall -Wextra -pthread $(CAPTURE_FLAGS_$*) -o $@ $<
$(CAPTURE)/plugin_%.so: tests/stacks/capture/plugin.c
	@mkdir -p $(@D)
	$(CC) $(CAPTURE_CFLAGS) -O2 -fomit-frame-pointer -DROOM=$* -shared -fPIC -o $@ $<

-include $(wildcard $(CAPTURE)/*.d)
