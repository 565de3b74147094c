# SPDX-License-Identifier: Apache-2.0
# PyTorch's own caching allocator. The suites themselves fetch and build what they need (wheels.py), because that takes
# a network: without one they are skipped, with that reason.

.PHONY: check-torch
check-torch: CUTRACE_FULL := 1
check-torch: SUITES := torch/allocator
check-torch: check

ifeq ($(SAN)$(CROSS),)
BENCHES += tests/bench/torch.py
bench: sim
endif
