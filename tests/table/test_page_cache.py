"""What the cache of pages lets go, and when."""

from __future__ import annotations

from siltstone.table.page_cache import PLAIN, WHOLE, PageCache

KIB = 1024
LIMIT = 16 * KIB


def keys(count):
    return [(None, 0, number, WHOLE) for number in range(count)]


def test_put__more_than_the_limit__the_one_used_least_lately_goes():
    cache = PageCache(LIMIT)
    first, second, third = keys(3)
    cache.put(first, b"1", 6 * KIB)
    cache.put(second, b"2", 6 * KIB)
    assert cache.get(first) == b"1"
    cache.put(third, b"3", 6 * KIB)
    assert [cache.get(key) for key in (first, second, third)] == [b"1", None, b"3"]
    assert 12 * KIB <= cache.nbytes <= LIMIT


def test_put__more_than_the_limit__what_is_in_spare_place_goes_first_however_new():
    cache = PageCache(LIMIT)
    old, new = keys(2)
    cache.put(old, b"old", 6 * KIB)
    cache.put((None, 0, 0, PLAIN), b"spare", 6 * KIB, spare=True)
    assert cache.get((None, 0, 0, PLAIN)) == b"spare"
    cache.put(new, b"new", 6 * KIB)
    assert cache.get((None, 0, 0, PLAIN)) is None
    assert [cache.get(key) for key in (old, new)] == [b"old", b"new"]
    cache.put((None, 0, 0, PLAIN), b"spare", 6 * KIB, spare=True)
    assert cache.get((None, 0, 0, PLAIN)) is None
    assert [cache.get(key) for key in (old, new)] == [b"old", b"new"]


def test_put__the_same_again__is_counted_once():
    cache = PageCache(LIMIT)
    [key] = keys(1)
    cache.put(key, b"", KIB)
    once = cache.nbytes
    cache.put(key, b"", KIB)
    assert cache.nbytes == once
    cache.put((None, 0, 0, PLAIN), b"", KIB, spare=True)
    cache.put((None, 0, 0, PLAIN), b"", KIB, spare=True)
    assert cache.nbytes == 2 * once


def test_put__larger_than_the_limit__keeps_nothing_and_counts_nothing():
    cache = PageCache(1)
    [key] = keys(1)
    for spare in (False, True):
        cache.put(key, b"", KIB, spare=spare)
        assert cache.get(key) is None
        assert cache.nbytes == 0
