"""Object keys that no store may be asked for: each could leave its root, or mean two things."""

from __future__ import annotations

HOSTILE_KEYS: tuple[object, ...] = (
    # Out of the root.
    *("..", "../x", "a/..", "a/../b", "a/../../x", "../../../../etc/passwd", "a/./../b", ".", "./a", "a/.", "a/./b"),
    # Absolute, or empty segments that some stores fold.
    *("/", "/a", "//a", "/etc/passwd", "a//b", "a/", "a//", "//", "/..", "/../x"),
    # Another host or scheme.
    *("file:///etc/passwd", "s3://other/x", "http://127.0.0.1/x", "az://x/y", "C:/x", "c:x", "a:b"),
    # Encodings that a layer below may undo.
    *("%2e%2e/x", "%2e%2e%2fx", "a%2f..%2fb", "%2E%2E/x", "%252e%252e/x", "a%00b", "%", "..%2fx", "a/%2e%2e"),
    # Separators of other systems.
    *("..\\x", "a\\..\\b", "\\\\host\\share", "a\\b", "\\"),
    # Characters that cut a name off, split a request, or are refused by a file system.
    *("a\0b", "a\nb", "a\r\nHost: x", "a\x1b[2J", "a\tb", "\x7f", "a#b", "a?b"),
    *("a?versionId=1", "a*", "*", 'a"b', "a<b>", "a|b"),
    # Two spellings of one name, names that are no text, and invisible ones.
    *("e\u0301", "\ud800", "a\udcffb", "a\u200eb", "a\u202eb", "\ufeffa"),
    # Too long, empty, or no string at all.
    *("a" * 1001, "\u00e9" * 501, "a/" * 600 + "a", "", None, 7, b"a", ["a"], ("a",)),
)
