"""Shards: parts of a table with one writer each, whose rows are durable and readable before they are merged into it."""
