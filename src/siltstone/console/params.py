"""What a request asks for, checked: every parameter is known, given once, and of its kind."""

from __future__ import annotations

from urllib.parse import parse_qsl

from siltstone.errors import InvalidInputError, LimitExceededError
from siltstone.table.types import shown

QUERY_CHARACTERS_MAX = 16_384
PARAMS_MAX = 20


class Params:
    """The parameters of one request. What is not read by the time of ``done`` is refused."""

    def __init__(self, query: str) -> None:
        if len(query) > QUERY_CHARACTERS_MAX:
            raise LimitExceededError(
                f"the query has more than {QUERY_CHARACTERS_MAX:,} characters", hint="ask for less"
            )
        try:
            pairs = parse_qsl(
                query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=PARAMS_MAX, errors="strict"
            )
        except (ValueError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"the query can't be parsed: {shown(str(error))[1:-1]}") from None
        self._given: dict[str, str] = {}
        for name, value in pairs:
            if name in self._given:
                raise InvalidInputError(f"the parameter {shown(name)} is given twice", hint="give it once")
            self._given[name] = value
        self._read: set[str] = set()

    def text(self, name: str, default: str | None = None) -> str:
        """A text; without a default it must be there."""
        self._read.add(name)
        found = self._given.get(name, default)
        if found is None:
            raise InvalidInputError(f"the parameter {name} is missing", hint=f"give {name}=...")
        return found

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**53) -> int:
        """A whole number."""
        text = self.text(name, str(default))
        if not (text.isascii() and text.isdigit()) or len(text) > 16 or not least <= int(text) <= most:
            raise InvalidInputError(
                f"{name} must be a whole number from {least:,} to {most:,}, got {shown(text)}", hint="correct it"
            )
        return int(text)

    def flag(self, name: str) -> bool:
        """Yes or no: 1 or 0, no without it."""
        return self.choice(name, ("0", "1")) == "1"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some words, the first without it."""
        text = self.text(name, choices[0])
        if text not in choices:
            raise InvalidInputError(f"{name} is {shown(text)}", hint=f"there are {', '.join(choices)}")
        return text

    def done(self) -> None:
        """Raise InvalidInputError where something was given that nobody asked for."""
        unknown = sorted(self._given.keys() - self._read)
        if unknown:
            known = ", ".join(sorted(self._read)) or "none"
            raise InvalidInputError(f"there is no parameter {shown(unknown[0])}", hint=f"there are: {known}")
