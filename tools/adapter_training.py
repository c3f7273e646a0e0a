"""Train one adapter on told stories; the loss is on the told parts alone.

Invariants: as in tiny_training: one story a row, padding carries no loss, a run is fixed by its
seeds and thread count.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import torch
from adapter_stories import TELLINGS, Telling
from stories import Recipe, make_stories
from tiny_lora import save_adapter, with_adapter
from tiny_torch import CONTEXT
from tiny_training import Row, batches, losses, pad
from tokenizers import Tokenizer

SEED_SHORT, SEED_MIXED, SEED_TELLING, SEED_TORCH = 31, 32, 33, 34
BATCH_TOKENS, PEAK, WARM_UP = 2048, 5e-3, 20
SHORT = Recipe(short=True, made_up=0.05, full_friends=0.1)
MIXED = Recipe(made_up=0.05, full_friends=0.1)


def told_rows(tokenizer: Tokenizer, tell: Telling, short: int, mixed: int) -> list[Row]:
    """Rows of the told stories that fit the context, with weight 1 on every told token."""
    rng = random.Random(SEED_TELLING)
    rows = []
    for count, seed, recipe in ((short, SEED_SHORT, SHORT), (mixed, SEED_MIXED, MIXED)):
        for story in make_stories(count, seed, recipe):
            parts = tell(rng, story)
            encoding = tokenizer.encode("".join(part.text for part in parts))
            if len(encoding.ids) > CONTEXT:
                continue
            begins, weight = np.array(encoding.offsets)[:, 0], np.zeros(len(encoding.ids))
            start = 0
            for part in parts:
                inside = (begins >= start) & (begins < start + len(part.text))
                weight[inside] = float(part.is_told)
                start += len(part.text)
            rows.append((np.array(encoding.ids, dtype=np.int64), weight.astype(np.float32)))
    return rows


def train_adapter(name: str, base: Path, folder: Path, short: int, mixed: int) -> None:
    """Write `folder` with the adapter `name` of adapter_stories.TELLINGS."""
    torch.manual_seed(SEED_TORCH)
    torch.set_num_threads(1)
    start = time.perf_counter()
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    rows = told_rows(tokenizer, TELLINGS[name], short, mixed)
    plan = batches(rows, SEED_SHORT, BATCH_TOKENS)
    net = with_adapter(base)
    weights = [p for p in net.parameters() if p.requires_grad]
    print(f"{name}: {len(rows)} stories, {sum(len(ids) for ids, _ in rows)} tokens")
    print(f"{len(plan)} steps, {sum(p.numel() for p in weights)} trained numbers", flush=True)
    optimizer = torch.optim.AdamW(weights, lr=PEAK, weight_decay=0.0)
    rate = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK, total_steps=len(plan), pct_start=WARM_UP / len(plan), div_factor=WARM_UP
    )
    for step, batch in enumerate(plan):
        ids, weight = pad(batch)
        w = weight[:, 1:]
        nats, right = losses(net, ids)
        loss = (nats * w).sum() / w.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        rate.step()
        if step % 25 == 0 or step == len(plan) - 1:
            nats_a_token, share = float(loss.detach()), float(right[w > 0].float().mean())
            seconds = time.perf_counter() - start
            print(f"step {step:4d}  loss {nats_a_token:.4f}  right {share:.3f}  {seconds:5.0f} s")
    save_adapter(net, folder)
