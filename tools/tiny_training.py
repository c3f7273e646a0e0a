"""Make the tokenizer, train the decoder on generated stories and write the model's folder.

Invariants: each story starts at position 0 of its own row and nothing is packed behind it, as
the engine's prompts do; padding carries no loss; a run is fixed by its seeds and thread count.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from stories import Recipe, Story, make_stories
from story_words import EOS
from tiny_torch import CONFIG, CONTEXT, VOCAB, TinyLlama
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn import functional as F

SEED_TOKENIZER, SEED_SHORT, SEED_TRAIN, SEED_LOSS, SEED_TORCH = 11, 2, 1, 8001, 7
BATCH_SHORT, BATCH_TOKENS = 2048, 4096
PEAK, WARM_UP = 3e-3, 50
ANSWER_WEIGHT = 4.0  # the answer's word is one token in 40 of a story and the one that matters
Row = tuple[np.ndarray, np.ndarray]  # ids [T] int64, loss weight of each as a target [T]


def make_tokenizer() -> Tokenizer:
    """Byte-level BPE whose alphabet is all 256 bytes: every text encodes and comes back."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = (s.text for s in make_stories(10_000, SEED_TOKENIZER, Recipe(made_up=0.0)))
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, stories: Iterable[Story]) -> list[Row]:
    """Rows of the stories that fit the context; the words of the answers weigh more."""
    rows = []
    for story in stories:
        encoding = tokenizer.encode(story.text)
        if len(encoding.ids) > CONTEXT:
            continue
        weight = np.ones(len(encoding.ids), dtype=np.float32)
        begins, ends = np.array(encoding.offsets).T
        for case in story.cases:
            weight[(ends > case.word_start) & (begins < case.word_end)] = ANSWER_WEIGHT
        rows.append((np.array(encoding.ids, dtype=np.int64), weight))
    return rows


def batches(rows: list[Row], seed: int, tokens: int) -> list[list[Row]]:
    """Rows of like length together, so that little is padding; the batches in random order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))
    out = []
    for chunk in np.array_split(order, max(1, len(rows) // 4000)):
        batch: list[Row] = []
        for i in sorted(chunk, key=lambda i: len(rows[i][0])):
            if (len(batch) + 1) * len(rows[i][0]) > tokens:
                out.append(batch)
                batch = []
            batch.append(rows[i])
        out.append(batch)
    return [out[i] for i in rng.permutation(len(out))]


def pad(batch: list[Row]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(len(ids) for ids, _ in batch)
    ids = np.zeros((len(batch), width), dtype=np.int64)
    weight = np.zeros((len(batch), width), dtype=np.float32)
    for i, (row, w) in enumerate(batch):
        ids[i, : len(row)], weight[i, : len(row)] = row, w
    return torch.from_numpy(ids), torch.from_numpy(weight)


def losses(net: TinyLlama, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """ids [B, T] -> nats of each next token, and whether it was the likeliest: both [B, T-1]."""
    logits, target = net(ids[:, :-1]), ids[:, 1:]
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    return loss.view_as(target), logits.argmax(-1) == target


def held_out_loss(net: TinyLlama, tokenizer: Tokenizer) -> tuple[float, float]:
    """Nats a token over 600 unseen stories: all tokens, and the words of the answers alone."""
    stories = make_stories(600, SEED_LOSS, Recipe(held_out=True))
    total = np.zeros(4)
    with torch.no_grad():
        for batch in batches(encode(tokenizer, stories), 0, BATCH_TOKENS):
            ids, weight = pad(batch)
            loss, w = losses(net, ids)[0], weight[:, 1:]
            for j, mask in enumerate((w > 0, w > 1)):
                total[2 * j] += float(loss[mask].sum())
                total[2 * j + 1] += int(mask.sum())
    return total[0] / total[1], total[2] / total[3]


def _rate(step: int, steps: int) -> float:
    """Rise, stay at the peak for the first half, then fall to nothing along a cosine."""
    if step < WARM_UP:
        return PEAK * (step + 1) / WARM_UP
    done = max(0.0, 2 * step / steps - 1)
    return PEAK * 0.5 * (1 + math.cos(math.pi * done))


def _run(net: TinyLlama, plan: list[list[Row]]) -> Iterator[tuple[int, float, float]]:
    """Step, weighted loss, and the share of answer words (their tokens) that were likeliest."""
    decayed = [p for p in net.parameters() if p.dim() == 2]
    plain = [p for p in net.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
        betas=(0.9, 0.95),
    )
    for step, batch in enumerate(plan):
        for group in optimizer.param_groups:
            group["lr"] = _rate(step, len(plan))
        ids, weight = pad(batch)
        w = weight[:, 1:]
        nats, right = losses(net, ids)
        loss = (nats * w).sum() / w.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        yield step, float(loss.detach()), float(right[w > 1].float().mean())


def save(net: TinyLlama, folder: Path) -> None:
    tensors = {k: v.detach().half().contiguous() for k, v in net.state_dict().items()}
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})


def train(folder: Path, short: int, mixed: int) -> None:
    """Train from nothing and write config.json, tokenizer.json and model.safetensors.

    Short stories come first: there the model learns to look back, which long ones alone teach
    it several times more slowly.
    """
    torch.manual_seed(SEED_TORCH)
    torch.set_num_threads(2)
    start = time.perf_counter()
    tokenizer = make_tokenizer()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    first = encode(tokenizer, make_stories(short, SEED_SHORT, Recipe(short=True)))
    then = encode(tokenizer, make_stories(mixed, SEED_TRAIN, Recipe()))
    plan = batches(first, SEED_SHORT, BATCH_SHORT) + batches(then, SEED_TRAIN, BATCH_TOKENS)
    tokens = [sum(len(ids) for ids, _ in rows) for rows in (first, then)]
    net = TinyLlama()
    print(f"{len(first)} + {len(then)} stories, {tokens[0]} + {tokens[1]} tokens")
    print(f"{len(plan)} steps, {sum(p.numel() for p in net.parameters())} parameters", flush=True)
    for step, loss, right in _run(net, plan):
        if step % 25 == 0:
            seconds = time.perf_counter() - start
            print(f"step {step:5d}  loss {loss:.4f}  answers {right:.3f}  {seconds:6.0f} s")
        if step % 250 == 249:  # so that a run that is stopped leaves usable weights
            save(net, folder)
    save(net, folder)
    everything, answers = held_out_loss(net, tokenizer)
    print(f"held-out nats a token: {everything:.4f} (all), {answers:.4f} (answer words)")
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes", flush=True)
