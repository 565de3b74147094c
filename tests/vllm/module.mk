# SPDX-License-Identifier: Apache-2.0
# Real vLLM on the simulated GPU. Too big for `make check`, which reads the traces that it has left in tests/report/vllm.

# The version: the newest one, or another one of scripts/vllm-*.pins.
VLLM ?= 0.33.0
.PHONY: check-vllm check-vllm-advice check-vllm-fit vllm-golden pytorch-golden
check-vllm-advice: all sim
	CUTRACE_VLLM=$(VLLM) CUTRACE_HANG=7200 $(RUN_SUITES) tests/vllm/test_advice.py
check-vllm-fit: all sim
	CUTRACE_VLLM=$(VLLM) CUTRACE_HANG=7200 $(RUN_SUITES) tests/vllm/test_fit.py
check-vllm: all sim
	CUTRACE_VLLM=$(VLLM) CUTRACE_HANG=7200 $(RUN_SUITES) tests/vllm/test_vllm.py
# The same of plain PyTorch programs; PYTORCH_CASES="leak recovered" of some.
pytorch-golden: all sim
	CUTRACE_VLLM=$(VLLM) CUTRACE_BUILD=$(abspath $(BUILD)) CUTRACE_ROOT=$(CURDIR) \
		python3 tests/vllm/pytorch_golden.py $(PYTORCH_CASES)
# Makes the golden traces anew; VLLM_CASES="sleep lora" those of some cases.
vllm-golden: all sim
	CUTRACE_VLLM=$(VLLM) CUTRACE_BUILD=$(abspath $(BUILD)) CUTRACE_ROOT=$(CURDIR) python3 tests/vllm/test_vllm.py --golden $(VLLM_CASES)
