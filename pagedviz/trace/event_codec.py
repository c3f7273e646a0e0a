"""The events of a step to and from the JSON objects of its line.

    {"scheduled": {"seq": [0, 1, 4], "num_tokens": [1, 1, 16]}}      one object, three rows

Invariants: neighbours of one type share an object, column by column (a list has one value per row,
a plain value is meant for all); a field is left out if, for every row of the object, it has the
value that follows from what came before, or its default; reading gives back exactly the events
written; whatever else an object says is a TraceFormatError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pagedviz.engine.errors import TraceFormatError
from pagedviz.engine.events import (
    Event,
    PageAllocated,
    PageCopied,
    PageEvicted,
    PageReleased,
    SequenceScheduled,
    SequenceSubmitted,
    SlotsWritten,
)
from pagedviz.trace.event_format import FORMAT, ROW_TYPES, AllWritten, Field, Row, Turn
from pagedviz.trace.implied import Context
from pagedviz.trace.json_values import check_hash, show

# A file may not make its reader hold more known tokens than this.
MAX_KNOWN_TOKENS = 1 << 24

_FIELDS = {
    row_type: {field.key: field for field in fields} for row_type, (_, fields) in FORMAT.items()
}


class EventCodec:
    """Reads or writes the events of one file, from the first to the last. What is read may have at
    most so many events, sequences and known tokens; None = any number."""

    def __init__(
        self,
        num_pages: int,
        block_size: int,
        max_events: int | None = None,
        max_sequences: int | None = None,
        max_tokens: int = MAX_KNOWN_TOKENS,
    ) -> None:
        self._most = (max_events, max_sequences, max_tokens)
        self._num_events = self._num_sequences = 0
        self._context = Context(num_pages, block_size)
        self.reducer = self._context.state
        """The state after the events so far."""

    def end_step(self) -> None:
        self._context.end_step()

    # ---- writing ---------------------------------------------------------------------------

    def write(self, events: Sequence[Event]) -> list[dict[str, Any]]:
        """The objects of a step line. TraceFormatError for a value that no file may hold."""
        objects: list[dict[str, Any]] = []
        run: list[Row] = []
        implied: list[bool] = []
        place = 0
        while place < len(events):
            row, length = self._next_row(events, place)
            fields = FORMAT[type(row)][1]
            if run and not _may_share(run[-1], row):
                objects.append(_write_run(run, implied))
                run = []
            if not run:
                implied = [True] * len(fields)
            given = row._asdict()
            for number, field in enumerate(fields):
                if implied[number]:
                    implied[number] = self._is_implied(type(row), field, given)
            run.append(row)
            for event in events[place : place + length]:
                self._apply(event)
            place += length
        if run:
            objects.append(_write_run(run, implied))
        return objects

    def _next_row(self, events: Sequence[Event], place: int) -> tuple[Row, int]:
        """The row that stands for the events from `place` on, and how many they are."""
        event, end = events[place], place
        rows: list[Row] = [AllWritten()] if isinstance(event, SlotsWritten) else []
        if isinstance(event, PageEvicted):
            end += 1
        if end < len(events) and isinstance(allocated := events[end], PageAllocated):
            if end + 1 < len(events) and isinstance(
                scheduled := events[end + 1], SequenceScheduled
            ):
                rows.append(Turn(*scheduled, allocated.page_id))
            rows.append(allocated)
        elif end < len(events) and isinstance(copied := events[end], PageCopied):
            rows.append(copied)
        for row in rows:
            # Only a row that stands for just these events will be read back as them.
            try:
                meant = self._context.events_of(row)
            except TraceFormatError:
                continue
            if meant and meant == tuple(events[place : place + len(meant)]):
                return row, len(meant)
        return (Turn(*event) if isinstance(event, SequenceScheduled) else event), 1

    def _is_implied(self, row_type: type[Row], field: Field, given: dict[str, Any]) -> bool:
        try:
            value = self._context.implied(row_type, field.attribute, given)
        except (KeyError, TraceFormatError):
            return False
        return bool(value == given[field.attribute])

    # ---- reading ---------------------------------------------------------------------------

    def read(self, item: object) -> list[Event]:
        """The events of one object, applied. TraceFormatError says what is wrong with it."""
        if not isinstance(item, dict) or len(item) != 1:
            raise TraceFormatError(f"an event is an object with one key, got {show(item)}")
        word, columns = next(iter(item.items()))
        row_type = ROW_TYPES.get(word)
        if row_type is None:
            raise TraceFormatError(f"unknown event {show(word)}; known: {', '.join(ROW_TYPES)}")
        if not isinstance(columns, dict):
            raise TraceFormatError(f"{word}: an object of fields is expected, got {show(columns)}")
        fields = _FIELDS[row_type]
        for key in columns:
            if key not in fields:
                raise TraceFormatError(
                    f"{word}: unknown field {show(key)}; known: {', '.join(fields)}"
                )
        events: list[Event] = []
        for number in range(_num_rows(word, fields, columns)):
            given: dict[str, Any] = {}
            for key, value in columns.items():
                field = fields[key]
                if isinstance(value, list) and not field.is_list:
                    value = value[number]
                given[field.attribute] = _check(field, value, word)
            try:
                row = self._complete(row_type, given)
                for event in self._context.events_of(row):
                    # One by one: a line of "all_written" would be millions of them.
                    self._count(event)
                    self._apply(event)
                    events.append(event)
            except KeyError as error:
                missing = [field.key for field in fields.values() if field.attribute in error.args]
                raise TraceFormatError(f'{word}: the field "{missing[0]}" is missing') from None
            except TraceFormatError as error:
                raise TraceFormatError(f"{word}: {error}") from None
        return events

    def _complete(self, row_type: type[Any], given: dict[str, Any]) -> Row:
        for field in FORMAT[row_type][1]:
            if field.attribute not in given:
                value = self._context.implied(row_type, field.attribute, given)
                given[field.attribute] = value
        row: Row = row_type(**given)
        return row

    def _count(self, event: Event) -> None:
        max_events, max_sequences, _ = self._most
        self._num_events += 1
        if max_events is not None and self._num_events > max_events:
            raise TraceFormatError(f"more than {max_events} events")
        if isinstance(event, SequenceSubmitted):
            self._num_sequences += 1
            if max_sequences is not None and self._num_sequences > max_sequences:
                raise TraceFormatError(f"more than {max_sequences} sequences")

    def _apply(self, event: Event) -> None:
        if isinstance(event, SequenceSubmitted):
            max_tokens = self._most[2]
            total = self.reducer.num_tokens + event.num_prompt_tokens
            if total > max_tokens:
                raise TraceFormatError(
                    f"seq:{event.seq_id:d} makes it {total} known tokens; a trace may have "
                    f"{max_tokens}"
                )
        self._context.apply(event)


def _write_run(run: Sequence[Row], implied: Sequence[bool]) -> dict[str, Any]:
    word, fields = FORMAT[type(run[0])]
    columns: dict[str, Any] = {}
    for number, field in enumerate(fields):
        if not implied[number]:
            values = [_to_json(field, row[number]) for row in run]
            for value in values:
                _check(field, value, word)
            is_same = values.count(values[0]) == len(values)
            columns[field.key] = values[0] if is_same else values
    if len(run) > 1 and not any(isinstance(value, list) for value in columns.values()):
        # Without a list nothing would say how many they are.
        columns[fields[0].key] = [columns[fields[0].key]] * len(run)
    return {word: columns}


def _num_rows(word: str, fields: dict[str, Field], columns: dict[str, Any]) -> int:
    lengths = {
        key: len(value)
        for key, value in columns.items()
        if isinstance(value, list) and not fields[key].is_list
    }
    if not lengths:
        return 1
    if _has_list(tuple(fields.values())):
        raise TraceFormatError(f'{word}: "{next(iter(lengths))}" takes one value, not a list')
    if len(set(lengths.values())) > 1:
        parts = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise TraceFormatError(f"{word}: the lists differ in length: {parts}")
    length = next(iter(lengths.values()))
    if length < 2:
        raise TraceFormatError(f"{word}: a list has one value for each of two or more events")
    return length


def _may_share(before: Row, row: Row) -> bool:
    """Whether two neighbours may be in one object."""
    if isinstance(before, PageReleased) and isinstance(row, PageReleased):
        # The front and the back of the queue apart, or the column would be mostly null.
        return (before.queue_before is None) == (row.queue_before is None)
    fields = FORMAT[type(row)][1]
    # Without fields there is no column whose length could tell how many there are.
    return type(before) is type(row) and bool(fields) and not _has_list(fields)


def _has_list(fields: Sequence[Field]) -> bool:
    return any(field.is_list for field in fields)


def _check(field: Field, value: object, word: str) -> Any:
    try:
        if field.is_list:
            if not isinstance(value, list):
                raise TraceFormatError(f"a list is expected, got {show(value)}")
            return tuple([field.check(item) for item in value])
        if value is None and field.is_optional:
            return None
        return field.check(value)
    except TraceFormatError as error:
        raise TraceFormatError(f'{word}, "{field.key}": {error}') from None


def _to_json(field: Field, value: Any) -> Any:
    if field.is_list:
        return list(value)
    # JSON's numbers would round 64 bits.
    return f"{value:016x}" if field.check is check_hash and value is not None else value
