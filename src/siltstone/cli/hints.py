"""Hints of the library in the words of the command line: verbs and options instead of calls and arguments.

What must hold: a hint is only ever reworded; where the command line has no word for something, the library's stays.
"""

from __future__ import annotations

import re

# Whole phrases first: they leave nothing for the shorter ones below.
_PHRASES = {
    "call checkpoint() with the same arguments again to end it, or delete_checkpoint()": (
        "run `siltstone checkpoint create` with the same options again to end it, or `siltstone checkpoint delete`"
    ),
    "call checkpoint() with the same arguments to end it, or delete_checkpoint()": (
        "run `siltstone checkpoint create` with the same options to end it, or `siltstone checkpoint delete`"
    ),
    "checkpoints() and tags list what there is": "see `siltstone checkpoint list` and `siltstone tag list`",
    "create it with shards=, or give it some with split_shards()": "`siltstone split TABLE N` gives it some",
    "create it with key= and shards=; without a key, write to one with shard('name').writer()": (
        "create it with --key and --shards; without a key, name one: `siltstone put TABLE --shard NAME`"
    ),
    "give None to keep it for ever": "leave --keep-days out to keep it for ever",
    "give another name=, drop it first, or leave the options out to take in new rows": (
        "give another --name, drop it first, or take in new rows with `siltstone index optimize`"
    ),
    "how many rows at most: a whole number from 0 on, or None": "how many rows at most: --limit N, or --all",
    "leave it out for all, or use count() for the number": "leave it out for all, or use --count for the number",
    "leave one row for each key, or use upsert(), which keeps the last": (
        "leave one row for each key, or use `siltstone upsert`, which keeps the last"
    ),
    "leave snippets out, and make them with siltstone.query.snippets()": "leave --snippets out",
    'leave them out, or pass tokenizer="ngram"': "leave them out, or give --tokenizer ngram",
    "make the index with positions=True, or use query.Match(..., operator='and')": (
        "make the index with --positions, or look for the words without quotes, each with a + before it"
    ),
    "missing() says which ones are left to do": "`siltstone index status` says which ones are left to do",
    "open it where it is there, else run clone() again": "read it where it is there, else run `siltstone clone` again",
    "open it with siltstone.open(), or pass exist_ok=True": "write to it as it is, or give --exist-ok",
    "open the table again; where a split was cut off, split_shards() with the same number ends it": (
        "run it again; where a split was cut off, `siltstone split` with the same number ends it"
    ),
    "open the writer again: all that was acknowledged is there": "run it again: all that was acknowledged is there",
    "pass to= or nullable=True": "give a TYPE or --nullable",
    "run clone() with the same arguments again, or drop() it": (
        "run `siltstone clone` with the same options again, or `siltstone drop` it"
    ),
    "use scan(where=...), or create the table with key=": "use `siltstone scan --where`, or create it with --key",
    "IndexBuild.name says how a build is called": "`siltstone index status TABLE` says how builds are called",
    "give wal= (on the command line --wal) with the URI of that store": "give --wal with the URI of that store",
}
_VERBS = {
    "append": "append",
    "checkpoint": "checkpoint create",
    "checkpoints": "checkpoint list",
    "clone": "clone",
    "create": "create",
    "create_text_index": "index create",
    "delete_checkpoint": "checkpoint delete",
    "detach": "detach",
    "drop": "drop",
    "drop_index": "index drop",
    "history": "log",
    "indexes": "index list",
    "merge_shards": "merge",
    "open": "scan",
    "optimize_index": "index optimize",
    "overwrite": "overwrite",
    "split_shards": "split",
    "update": "update",
    "upsert": "upsert",
}
_OPTIONS = {
    "adopt=True": "--adopt", "columns": "--columns", "commits": "--commits", "create=True": "--create",
    "exist_ok=True": "--exist-ok", "fresh=True": "--fresh", "index": "--index", "indexed_only": "--indexed-only",
    "keep_days": "--keep-days", "keep_versions": "--keep-versions", "key": "--key", "master": "--master",
    "moved=True": "--moved", "name": "--name", "ngram_min": "--ngram-min", "nullable=True": "--nullable",
    "positions=True": "--positions", "shards": "--shards", "stem=False": "--no-stem",
    "stop_words=False": "--no-stop-words", "storage_options": "--storage-option", "wal": "--wal",
    "wal_options": "--wal-option",
}  # fmt: skip
_CALL = re.compile(rf"\b(?:siltstone\.|table\.)?({'|'.join(sorted(_VERBS, key=len, reverse=True))})\(\)(?! of)")
_ALONE = frozenset({"storage_options", "indexed_only", "ngram_min"})  # named without an equals sign too


def _pattern(name: str) -> str:
    """An argument as hints name it: with its value, with an equals sign and no value, or alone."""
    behind = "" if "=" in name else r"=?(?![\w=])" if name in _ALONE else r"=(?![\w'\"\[])"
    return rf"(?<![-\w.]){re.escape(name)}{behind}"


_ARGUMENT = re.compile("|".join(_pattern(name) for name in sorted(_OPTIONS, key=len, reverse=True)))


def on_command_line(hint: str) -> str:
    """A hint for whoever typed a command."""
    for phrase, instead in _PHRASES.items():
        hint = hint.replace(phrase, instead)
    hint = _CALL.sub(lambda found: f"`siltstone {_VERBS[found[1]]}`", hint)
    hint = _ARGUMENT.sub(lambda found: _OPTIONS[found[0].removesuffix("=")], hint)
    return re.sub(r"\bpass (?=--)", "give ", hint)
