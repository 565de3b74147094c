# SPDX-License-Identifier: Apache-2.0
"""Read by every Python process of a run, workers included.

Takes what else is installed on the machine out of the way, and gives vLLM the results of its kernels that decide
whether serving goes on: how many tokens each request got, and which. Kernels write them, kernels do nothing here, and
the scheduler would wait for tokens for ever. The host knows the number: one token for each request whose prompt is
complete (of speculated tokens none is accepted). It goes to the device by a copy, which the simulated driver does do.
The tokens are 0, which is a token at least: what lies in the memory may be none. The same for the LoRA adapters of a
batch: vLLM asks the device how many different ones there are, and here the host counts them."""
import importlib.abc
import importlib.util
import sys



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


def wrap_sampler(module, name):
    inner = getattr(module, name).__call__

    def __call__(self, logits, input_batch, *more, **named):
        output = inner(self, logits, input_batch, *more, **named)
        write_results(output, input_batch)
        return output
    getattr(module, name).__call__ = __call__


def count_on_the_host(module, name):
    """torch.unique, in one method alone, of what the device holds (which a copy has put there)."""
    import torch
    inner, unique = getattr(module, name).prepare_tensors, torch.unique

    def of_copy(tensor, **named):
        found = unique(tensor.cpu(), **named)
        return tuple(f.to(tensor.device) for f in found) if isinstance(found, tuple) else found.to(tensor.device)

    def prepare_tensors(self, *words, **named):
        torch.unique = of_copy
        try:
            return inner(self, *words, **named)
        finally:
            torch.unique = unique
    getattr(module, name).prepare_tensors = prepare_tensors


WRAPPED = {  # module -> how, and which class of it
    "vllm.v1.worker.gpu.sample.sampler": (wrap_sampler, "Sampler"),
    "vllm.v1.worker.gpu.spec_decode.rejection_sampler": (wrap_sampler, "RejectionSampler"),
    "vllm.lora.ops.triton_ops.lora_kernel_metadata": (count_on_the_host, "LoRAKernelMeta"),
}


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in WRAPPED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        sys.meta_path.insert(0, self)
        run, (wrap, what) = spec.loader.exec_module, WRAPPED[name]
        spec.loader.exec_module = lambda module: (run(module), wrap(module, what))
        return spec


sys.meta_path.insert(0, Finder())
sys.path[:] = [p for p in sys.path if not p.endswith(("site-packages", "dist-packages"))]
