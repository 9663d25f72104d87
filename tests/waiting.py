"""Threads that wait for their turn at one handle."""

from __future__ import annotations

import threading


def waiting_behind(store, table, first, others):
    """Run ``first`` with ``others`` queued behind it, each in a thread of its own."""
    threads = [threading.Thread(target=other) for other in others]
    tick = threading.Event()

    def start():
        for thread in threads:
            thread.start()
        while len(table._turns._waiting) < len(threads):
            tick.wait(0.001)

    store.before("create", start, key="log/entries")
    first()
    for thread in threads:
        thread.join()
