# SPDX-License-Identifier: Apache-2.0
"""Another process that trains: it holds new weights of a Llama on the same device, and hands them out by CUDA IPC.
trainer.py MODEL

Writes one line, what IPCWeightTransferEngine.update_weights takes (base64 of a pickle), and ends with its standard
input."""
import base64
import json
import os
import pickle
import sys

import torch
from torch.multiprocessing.reductions import reduce_tensor


def shapes(config):
    """Name in the checkpoint -> shape, of the whole model."""
    hidden, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    q, kv = (config[n] * config["head_dim"] for n in ("num_attention_heads", "num_key_value_heads"))
    layer = {"self_attn.q_proj": (q, hidden), "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden),
             "self_attn.o_proj": (hidden, q), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
             "mlp.down_proj": (hidden, inner), "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,)}
    yield "model.embed_tokens.weight", (vocabulary, hidden)
    for number in range(config["num_hidden_layers"]):
        for name, shape in layer.items():
            yield f"model.layers.{number}.{name}.weight", shape
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (vocabulary, hidden)


def main():
    with open(os.path.join(sys.argv[1], "config.json"), encoding="utf-8") as f:
        named = dict(shapes(json.load(f)))
    weights = {name: torch.empty(shape, dtype=torch.bfloat16, device="cuda") for name, shape in named.items()}
    device = str(torch.cuda.get_device_properties(0).uuid)
    update = {"names": list(weights), "dtype_names": ["bfloat16"] * len(weights),
              "shapes": [list(shape) for shape in named.values()],
              "ipc_handles": [{device: reduce_tensor(w)[1]} for w in weights.values()]}
    print(base64.b64encode(pickle.dumps(update)).decode(), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
