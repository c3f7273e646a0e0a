"""Text to token ids and back, over a Hugging Face `tokenizer.json`.

Invariants:
- `decode(encode(text))` is the text for byte-level vocabularies.
- `token_text` shows every id as something visible: bytes that are no whole character as `\\xe2`,
  ids without text (padding of the embedding) as `<513>`.
"""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer as FastTokenizer
from tokenizers.decoders import ByteLevel

from pagedviz.model.errors import BadModelInput, CheckpointInvalid

MAX_BYTES = 64_000_000


class Tokenizer:
    """A vocabulary with its rules; `vocab_size` counts added tokens too."""

    def __init__(self, rules: FastTokenizer) -> None:
        self._rules = rules
        self._added = {i: token.content for i, token in rules.get_added_tokens_decoder().items()}
        self._is_byte_level = isinstance(rules.decoder, ByteLevel)
        self.vocab_size: int = rules.get_vocab_size(with_added_tokens=True)

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read `tokenizer.json`; raises `CheckpointInvalid` with the library's reason."""
        if path.stat().st_size > MAX_BYTES:
            raise CheckpointInvalid(
                f"{path.name} has {path.stat().st_size:,} bytes; the limit is {MAX_BYTES:,}."
            )
        try:
            rules = FastTokenizer.from_file(str(path))
        # The library raises plain Exception for whatever it does not like about the file.
        except Exception as error:
            raise CheckpointInvalid(f"{path.name} cannot be read: {error}.") from error
        return cls(rules)

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`, with the special tokens that the vocabulary's own rules add."""
        ids: list[int] = self._rules.encode(text).ids
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of `token_ids` together, special tokens left out."""
        _check_ids(token_ids)
        text: str = self._rules.decode(list(token_ids))
        return text

    def token_text(self, token_id: int) -> str:
        """What one token stands for, spaces and special tokens included."""
        _check_ids([token_id])
        piece: str | None = self._rules.id_to_token(token_id)
        if piece is None:
            return f"<{token_id}>"
        if token_id in self._added:
            return self._added[token_id]
        if not self._is_byte_level:
            return piece.replace("\u2581", " ")  # SentencePiece's mark for a space
        if any(letter not in _BYTE_OF for letter in piece):
            return piece
        return bytes(_BYTE_OF[letter] for letter in piece).decode("utf-8", "backslashreplace")


def _check_ids(token_ids: Sequence[int]) -> None:
    for token_id in token_ids:
        if not 0 <= token_id < 2**32:
            raise BadModelInput(f"{token_id} is not a token id.")


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's spelling of bytes: printable ones as themselves, the others from U+0100 upwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(0x100 + n): byte for n, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()
