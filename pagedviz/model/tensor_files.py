"""Read tensors of safetensors files by name, and the JSON objects beside them.

Invariants:
- Nothing is ever unpickled, and no file is opened but the ones given.
- A shape is checked before its tensor is read, so memory follows what the caller expects, not what
  the file claims.
- Every failure is a `ModelError` in one sentence that names the file or tensor.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from pagedviz.model.errors import CheckpointInvalid, ModelError

Array = NDArray[np.float32]
MAX_JSON_BYTES = 50_000_000
# Little-endian as the format demands. NumPy has no bfloat16: it is the upper half of a float32.
DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True)
class _Stored:
    """Where one tensor lies: bytes `start` to `start + count * itemsize` of `path`."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int


class TensorFiles:
    """The tensors of some files by name. `take` reads one; `check_all_taken` names leftovers.

    described_by: the file that says which tensors there must be; messages name it.
    """

    def __init__(self, paths: Iterable[Path], described_by: str) -> None:
        self._described_by = described_by
        self._stored: dict[str, _Stored] = {}
        self._taken: set[str] = set()
        for path in paths:
            for name, tensor in _read_header(path):
                if name in self._stored:
                    raise CheckpointInvalid(
                        f"tensor {name} is in {self._stored[name].path.name} and in {path.name}."
                    )
                self._stored[name] = tensor

    def take(self, name: str, *shape: int) -> Array:
        """Read `name` as float32; it must exist and have exactly `shape`."""
        tensor = self._stored.get(name)
        if tensor is None:
            raise CheckpointInvalid(
                f"the weights have no tensor {name}, which {self._described_by} needs."
            )
        if tensor.shape != shape:
            raise CheckpointInvalid(
                f"tensor {name} in {tensor.path.name} is {list(tensor.shape)}; "
                f"{self._described_by} makes it {list(shape)}."
            )
        if tensor.dtype not in DTYPES:
            raise CheckpointInvalid(
                f"tensor {name} in {tensor.path.name} is {tensor.dtype}; only F32, F16 and BF16 "
                "can be read."
            )
        self._taken.add(name)
        raw = np.fromfile(
            tensor.path, DTYPES[tensor.dtype], count=int(np.prod(shape)), offset=tensor.start
        ).reshape(shape)
        if tensor.dtype == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        return raw.astype(np.float32, copy=False)

    def check_all_taken(self, is_allowed: Callable[[str], bool]) -> None:
        """Refuse tensors without a place: leaving out, say, a bias computes another model."""
        for name in self._stored:
            if name not in self._taken and not is_allowed(name):
                raise CheckpointInvalid(
                    f"tensor {name[:120]} has no place in the model that {self._described_by} "
                    "describes."
                )


def _read_header(path: Path) -> Iterator[tuple[str, _Stored]]:
    try:
        # The library checks the whole layout: lengths, overlaps, holes, a truncated end.
        with safe_open(path, framework="numpy"):
            pass
    except SafetensorError as error:
        raise CheckpointInvalid(
            f"{path.name} is not a whole safetensors file ({error}); copy or download it again."
        ) from error
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    for name, entry in header.items():
        if name != "__metadata__":
            start = 8 + length + entry["data_offsets"][0]
            yield name, _Stored(path, entry["dtype"], tuple(entry["shape"]), start)


def read_object(path: Path, kind: type[ModelError]) -> dict[str, object]:
    """The JSON object in a file of the folder; raises `kind`."""
    if not path.is_file():
        raise kind(f"{path.parent} has no {path.name}, which is needed.")
    if path.stat().st_size > MAX_JSON_BYTES:
        raise kind(f"{path.name} has {path.stat().st_size:,} bytes; that is no {path.name}.")
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise kind(f"{path.name} is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise kind(f"{path.name} must hold a JSON object, not {type(value).__name__}.")
    return value
