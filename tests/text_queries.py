"""Random documents and queries of few words, so that they meet often."""

from __future__ import annotations

from siltstone.index.query import Boolean, Boost, Fuzzy, Match, MultiMatch, Phrase, Prefix

WORDS = ["alpha", "beta", "gamma", "delta", "alphabet", "betas", "alpho", "gam", "the", "of", "running", "runs", "été"]


def random_text(random, most, least=0):
    return " ".join(random.choice(WORDS) for _ in range(random.randint(least, most)))


def random_texts(random, count):
    return [None if random.random() < 0.1 else random_text(random, 8) for _ in range(count)]


def random_query(random, depth=0, *, columns=("a", "b")):
    """A query of any kind; without columns one that names none."""
    kind = random.random()
    boost = random.choice([1.0, 1.0, 2.0, 0.5, 0.0])

    def several(least, most):
        return [random_query(random, depth + 1, columns=columns) for _ in range(random.randint(least, most))]

    if depth < 3 and kind < 0.35:
        must = several(0, 2)
        should = several(0 if must else 1, 3)
        minimum = random.choice([None, None, random.randint(0, len(should))])
        return Boolean(must=must, should=should, must_not=several(0, 1), minimum_should=minimum, boost=boost)
    if depth < 2 and kind < 0.45 and columns:
        inner = random_query(random, depth + 1, columns=())
        named = random.choice([["a", "b"], {"a": 2.0, "b": 1.0}, ["b"]])
        return MultiMatch(inner, named, combine=random.choice(["best", "sum"]), boost=boost)
    if kind < 0.5:
        return Boost(random_query(random, depth + 1, columns=columns), boost)
    text = random_text(random, 4, random.randint(0, 1))
    own = {"column": random.choice([None, *columns]), "boost": boost}
    if kind < 0.7:
        return Match(text, operator=random.choice(["or", "and"]), **own)
    if kind < 0.85:
        return Phrase(text, slop=random.choice([0, 0, 1, 3]), **own)
    if kind < 0.93:
        return Prefix(random_text(random, 1, 1)[: random.randint(1, 6)], **own)
    return Fuzzy(
        random_text(random, 2, 1),
        edits=random.choice([None, 0, 1, 2]),
        prefix_length=random.choice([0, 0, 1, 2]),
        **own,
    )
