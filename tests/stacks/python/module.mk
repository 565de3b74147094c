# SPDX-License-Identifier: Apache-2.0
# A library that walks the Python frames of its caller, libraries that only look like an interpreter, and programs that
# embed one.

PYTHON_TESTS := $(BUILD)/tests/stacks/python
TESTS_native += $(addprefix $(PYTHON_TESTS)/,libwalk.so libfake_interpreter.so libfake_interpreter_little.so local_interpreter)
TESTS_address += $(PYTHON_TESTS)/libwalk.so # (a program can load it that loads the sanitizer first)

# Linked to glibc 2.28's symbol versions, like libcutrace.so: other interpreters bring their own libc.
$(PYTHON_TESTS)/libwalk.so: tests/stacks/python/libwalk.c $(PRELOAD_RECORDING_OBJS) $(BUILD)/preload/base/glibc_compat.o $(PRELOAD_ARCHIVES)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(PRELOAD_CFLAGS) $(DEPFLAGS) $(PRELOAD_TLS) -Ipreload -shared -o $@ $< \
	    $(filter %.o %.a,$^) $(LDFLAGS_ALL) -Wl,--exclude-libs,ALL -ldl

$(PYTHON_TESTS)/local_interpreter: tests/stacks/python/local_interpreter.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(DEPFLAGS) -D_GNU_SOURCE $< $(LDFLAGS_ALL) -ldl -o $@
$(PYTHON_TESTS)/libfake_interpreter.so $(PYTHON_TESTS)/libfake_interpreter_little.so: tests/stacks/python/fake_interpreter.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(if $(findstring little,$@),-DFAKE_LITTLE) $(DEPFLAGS) -fPIC -shared -o $@ $<

-include $(wildcard $(PYTHON_TESTS)/*.d)
