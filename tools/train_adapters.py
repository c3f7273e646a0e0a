"""Train the adapters of the bundled model, or measure those that are checked in.

    python tools/train_adapters.py               # needs torch; writes the adapters' folders
    python tools/train_adapters.py --evaluate    # needs only the project: the table of answers

Invariants: every seed is fixed; the base model is only read; what is evaluated are the float16
files as they were written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from adapter_recall import report
from adapter_stories import TELLINGS
from tiny_recall import load_rules

ROOT = Path(__file__).resolve().parent.parent
BASE = ROOT / "pagedviz" / "model" / "tiny"


def evaluate(folder: Path, names: list[str]) -> int:
    """Print what the adapters in `folder` answer, computed by the project's own NumPy decoder."""
    sys.path.insert(0, str(ROOT))
    from pagedviz.model import load_adapter, load_model, paged_logits

    base = load_model(BASE)
    model = base.with_adapters({name: load_adapter(folder / name, base) for name in names})
    rules = load_rules(BASE)
    print(report(rules, lambda ids, name: paged_logits(model, ids, adapter=name), names))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=sorted(TELLINGS), help="which adapters")
    parser.add_argument("--evaluate", action="store_true", help="measure them, do not train")
    parser.add_argument("--out", type=Path, default=BASE / "adapters", help="the adapters' folder")
    parser.add_argument("--short", type=int, default=3000, help="short stories")
    parser.add_argument("--mixed", type=int, default=1500, help="stories of all lengths")
    args = parser.parse_args()
    if not args.evaluate:
        from adapter_training import train_adapter  # here, because torch is needed for it only

        for name in args.names:
            train_adapter(name, BASE, args.out / name, args.short, args.mixed)
    return evaluate(args.out, args.names)


if __name__ == "__main__":
    sys.exit(main())
