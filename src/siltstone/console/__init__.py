"""A local page that shows tables as they are written. It reads, and can't write."""
