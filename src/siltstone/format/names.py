"""Names and numbers that records of several kinds hold, with what they may be."""

from __future__ import annotations

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
NAME = r"^[0-9]{20}-[0-9a-f]{32}(@[1-9][0-9]{0,3})?"  # what is behind the @ is the number of an origin
Name = Annotated[str, msgspec.Meta(pattern=NAME + r"\Z")]
FieldId = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
