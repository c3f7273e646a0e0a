"""The linked queue against a plain list, and what it refuses."""

import random

import pytest

from pagedviz.trace.linked_queue import LinkedQueue


def test_a_page_leaves_and_joins_anywhere() -> None:
    queue = LinkedQueue([4, 5, 6])
    queue.remove(5)
    queue.insert_before(9, 4)
    queue.insert_before(8, 6)
    queue.append(5)
    assert list(queue) == [9, 4, 8, 6, 5]
    assert (queue.head, len(queue), 8 in queue, 7 in queue) == (9, 5, True, False)


def test_an_empty_queue_has_no_head() -> None:
    queue = LinkedQueue([3])
    queue.remove(3)
    assert (list(queue), queue.head, len(queue)) == ([], None, 0)


def test_it_behaves_as_a_list_does() -> None:
    rng = random.Random(0)
    plain = list(range(10))
    queue = LinkedQueue(plain)
    for _ in range(500):
        number = rng.randrange(14)
        if number in plain:
            plain.remove(number)
            queue.remove(number)
        else:
            other = rng.choice([*plain, None])
            plain.insert(len(plain) if other is None else plain.index(other), number)
            queue.insert_before(number, other)
        assert list(queue) == plain
        assert list(LinkedQueue(plain)) == plain


def test_nothing_is_in_it_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        LinkedQueue([1, 2, 1])
    with pytest.raises(ValueError, match="1 is in the queue already"):
        LinkedQueue([1, 2]).append(1)
    with pytest.raises(KeyError):
        LinkedQueue([1, 2]).remove(3)
