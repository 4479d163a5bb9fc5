"""What bench/train_vs_ddp.py compares with: a GPT-2 on bytes under torch DistributedDataParallel, eager, over gloo.

The model, optimizer and micro-batch are those of Trireme's run; so is the number of operations a step. Start with
torchrun. Appends one JSON line a step to --out: step, loss, tokens_per_second.
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.attention_in = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.attention_in(self.ln_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, width, heads, positions, vocabulary=256):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, required=True)
    for name in ("layers", "width", "heads", "positions", "micro-batch"):
        parser.add_argument(f"--{name}", type=int, required=True)
    arguments = parser.parse_args()

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Gpt2(arguments.layers, arguments.width, arguments.heads, arguments.positions)
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    text = torch.from_file(arguments.data, size=os.path.getsize(arguments.data), dtype=torch.uint8)
    length, rows = arguments.positions, arguments.micro_batch
    generator = torch.Generator().manual_seed(rank)
    out = open(arguments.out, "a") if rank == 0 else None
    for step in range(1, arguments.steps + 1):
        start = time.perf_counter()
        begins = torch.randint(0, len(text) - length - 1, (rows,), generator=generator)
        windows = text[begins[:, None] + torch.arange(length + 1)].long()
        loss = ddp(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        if out:
            speed = world * rows * length / (time.perf_counter() - start)
            print(json.dumps({"step": step, "loss": value, "tokens_per_second": speed}), file=out, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
