"""Train the bundled story model, or measure the recall of the one that is checked in.

    python tools/train_tiny.py               # needs torch; writes the three model files
    python tools/train_tiny.py --evaluate    # needs only the project: the recall table, then exit

Invariants: every seed is fixed; only files of the output folder are written; what is evaluated is
the float16 file as it was written, never the float32 weights that were trained.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tiny_recall import load_rules, report

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "pagedviz" / "model" / "tiny"
WANTED = 0.95


def evaluate(folder: Path) -> int:
    """Print the recall table of the model in `folder`, run by the project's own NumPy decoder."""
    sys.path.insert(0, str(ROOT))
    from pagedviz.model import load_model, paged_logits

    model = load_model(folder)
    table, share = report(load_rules(folder), lambda ids: paged_logits(model, ids))
    print(table)
    verdict = "reached" if share >= WANTED else "MISSED"
    print(f"\n{100 * share:.1f} % of the listed words; {100 * WANTED:.0f} % wanted: {verdict}")
    return 0 if share >= WANTED else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--evaluate", action="store_true", help="measure recall, do not train")
    parser.add_argument("--out", type=Path, default=FOLDER, help="the model's folder")
    parser.add_argument("--short", type=int, default=12_000, help="short stories, seen first")
    parser.add_argument("--mixed", type=int, default=18_000, help="stories of all lengths, then")
    args = parser.parse_args()
    if not args.evaluate:
        from tiny_training import train  # here, because torch is needed for training only

        train(args.out, args.short, args.mixed)
    return evaluate(args.out)


if __name__ == "__main__":
    sys.exit(main())
