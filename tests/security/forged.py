"""Tables that somebody wrote who knows the format: every checksum and link is right, and what they say is hostile."""

from __future__ import annotations

import msgspec

from siltstone import paths
from siltstone.format.frame import digest
from siltstone.format.records import decode_entry, encode_entry
from siltstone.format.table import decode_body, encode_body

LIMIT = 2**30


def forge(store, edit, *, root=paths.LOG):
    """Change what each version says: ``edit`` gets a position and its JSON. Rollups go: they said it before."""
    store.delete([info.key for info in store.list(paths.ROLLUPS)])
    forge_log(store, lambda at, body: encode_body(edit(at, bytes(decode_body(body, name="it").change))), root=root)


def forge_log(store, edit, *, root):
    """Change the bodies of a log's entries, and link them anew."""
    before, position = "", 0
    while (info := store.head(paths.entry(root, position))) is not None:
        header, body = decode_entry(store.get(info.key, limit=LIMIT), name=info.key)
        header = msgspec.structs.replace(header, prev=before or header.prev)
        data = encode_entry(header, edit(position, body) if header.kind == "data" else body)
        store.put(info.key, data)
        before, position = digest(data), position + 1
    store.delete([f"{root}{paths.HINT}"])


def swap_fragment(store, data):
    """Put other bytes in the place of a table's only fragment, and have its versions say so."""
    [info] = store.list(paths.DATA)
    old = store.get(info.key, limit=LIMIT)
    store.put(info.key, data)
    words = (
        (digest(old).encode(), digest(data).encode()),
        (f'"bytes":{len(old)}'.encode(), f'"bytes":{len(data)}'.encode()),
    )

    def edit(_, text):
        for one, other in words:
            text = text.replace(one, other)
        return text

    forge(store, edit)
