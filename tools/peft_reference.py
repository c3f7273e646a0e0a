"""Make the adapters that the loader is tested against, with the PEFT library itself.

    python tools/peft_reference.py               # needs torch, transformers and peft

For each case the folder tests/data/adapters/<case> gets what `PeftModel.save_pretrained` writes for
a random adapter on tests/data/models/llama, and logits.npz with what PEFT then computes with it.
Invariants: every seed is fixed; B is random too, because a fresh adapter changes nothing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaForCausalLM

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
CASES = {
    "all_four": LoraConfig(
        r=4,
        lora_alpha=6,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
        task_type="CAUSAL_LM",
    ),
    "rank_stabilised": LoraConfig(
        r=3, lora_alpha=2, use_rslora=True, target_modules=["v_proj", "q_proj"]
    ),
}
PROMPT = [int(i) for i in np.random.default_rng(3).integers(0, 128, 37)]


def main() -> None:
    torch.manual_seed(0)
    for name, config in CASES.items():
        folder = DATA / "adapters" / name
        base = LlamaForCausalLM.from_pretrained(DATA / "models" / "llama", dtype=torch.float32)
        model = get_peft_model(base, config)
        with torch.no_grad():
            for key, p in model.named_parameters():
                if "lora_" in key:
                    p.normal_(std=0.2)
        # The path that it was loaded from says nothing to anybody else.
        config.base_model_name_or_path = "tests/data/models/llama"
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)  # a model card, empty
        base = LlamaForCausalLM.from_pretrained(DATA / "models" / "llama", dtype=torch.float32)
        again = PeftModel.from_pretrained(base, folder).eval()
        with torch.no_grad():
            logits = again(torch.tensor([PROMPT])).logits[0].numpy()
            with again.disable_adapter():
                plain = again(torch.tensor([PROMPT])).logits[0].numpy()
        print(name, "largest change of a logit:", float(np.abs(logits - plain).max()))
        np.savez_compressed(folder / "logits.npz", ids=PROMPT, logits=logits)


if __name__ == "__main__":
    main()
