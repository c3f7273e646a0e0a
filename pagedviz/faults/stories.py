"""Stories that the bundled model can be asked about: a page of one holds a word of its answer."""

LILY = (
    "Once upon a time there was a girl named Lily. Lily had a red kite. One day Lily went to the "
    "park. What colour was the kite?"
)
TOM = (
    "There was once a little boy named Tom. Tom had a blue boat. Then Tom walked to the lake. "
    "Where did Tom go?"
)

# Cut in pages of 16 tokens, the second page of Lily's story is the fourth of Ben's.
_OPENING = "Once upon a time there was a girl named Lily. It was a good"
_SHARED = " day. Lily had a yellow kite. One day Lily went to the lake."
LILY_ASKED = _OPENING + _SHARED + " What colour was the kite? The kite was"
BEN_MEETS_LILY = (
    "Ben was a little boy. He had a bell. The bell was orange. Ben went to the harbour with the "
    "bell. Where did Ben go? Ben went to the harbour. Time went by. Time went by. It was a good"
    + _SHARED
)
