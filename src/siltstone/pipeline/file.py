"""A pipeline file: read as a whole and checked as a whole, before anything is done.

What must hold:
- An error names the line, what is wrong there, and what is allowed.
- A step's digest tells steps apart by what they do: it holds nothing of the environment, and does not change with
  the place of the file.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siltstone.errors import InvalidInputError, LimitExceededError, NotFoundError, SiltstoneError
from siltstone.pipeline.document import FILE_BYTES_MAX, Node, parse_document, wrong
from siltstone.pipeline.steps import KINDS
from siltstone.pipeline.values import Reader
from siltstone.pipeline.variables import NAME, Variables, check_given, without
from siltstone.table.types import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from siltstone.pipeline.kinds import Kind

STEPS_MAX = 1000
FIRST_RUN = "1"
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+:\-]{0,63}")
_TOP = ("name", "spark", "vars", "storage", "commits", "steps")
_HERE = "here"
_UNDIGESTED = frozenset({"storage", "commits"})  # how a table is reached is not what is done with it


@dataclass(frozen=True)
class Step:
    """A step of a file, checked."""

    number: int  # from 1 on
    id: str
    kind: Kind
    line: int
    digest: str
    settings: Mapping[str, Any] = field(repr=False)

    @property
    def label(self) -> str:
        """What the step is called in messages."""
        own = "" if self.id == f"{self.number}-{self.kind.name}" else f" {self.id!a}"
        return f"step {self.number}{own} ({self.kind.name})"

    @property
    def target(self) -> str:
        """The table that it works on, for people."""
        named = self.settings.get("into") or self.settings.get("table")
        return str(named) if named else ", ".join(one["uri"] for one in self.settings["tables"].values())


@dataclass(frozen=True)
class Pipeline:
    """What a file says, with its variables filled in."""

    name: str
    run: str
    steps: tuple[Step, ...]
    master: str | None = None
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


def load_pipeline(path: str | Path, *, run: str = FIRST_RUN, values: Mapping[str, str] | None = None) -> Pipeline:
    """Read a pipeline file; ``values`` are variables that win over those of the file.

    Raises NotFoundError, InvalidInputError (with the line in ``facts``).
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {shown(str(path))}", hint="check its name") from None
    except OSError as error:
        raise InvalidInputError(
            f"the file {shown(str(path))} can't be read: {error.strerror}", hint="name a file that can be"
        ) from None
    try:
        return parse_pipeline(data, run=run, values=values, here=path.resolve().parent)
    except SiltstoneError as error:
        message = f"{shown(str(path))[1:-1]}: {error.message}"
        raise type(error)(message, hint=error.hint, **error.facts) from None


def parse_pipeline(
    data: bytes | str, *, run: str = FIRST_RUN, values: Mapping[str, str] | None = None, here: Path | None = None
) -> Pipeline:
    """What a file's content says; ``here`` is the directory that ``${here}`` stands for."""
    _check_label(run, "run")
    tree = parse_document(data.encode() if isinstance(data, str) else data)
    top = _keys(tree, _TOP, "a pipeline", needed=("name", "steps"))
    name = top["name"].text if isinstance(top["name"].value, str | int) else ""
    if not _LABEL.fullmatch(name):
        raise wrong(
            top["name"], f"the name is {shown(name) if name else top['name'].what}",
            hint="use at most 64 letters, digits and _ . + : -",
        )  # fmt: skip
    given, values = check_given(top.get("vars")), dict(values or {})
    fixed = {**values, "run": run, "name": name, _HERE: str(here or Path.cwd())}
    _check_names(given, values)
    variables = Variables(given, fixed, movable=(_HERE,))
    try:
        made = _pipeline(top, name, run, variables)
    except SiltstoneError as error:
        message, hint = (without(text, variables.secrets) for text in (error.message, error.hint))
        raise type(error)(message, hint=hint, **error.facts) from None
    unknown = sorted(set(values) - set(given) - variables.used)
    if unknown:
        raise InvalidInputError(
            f"the variable {unknown[0]} is set, and nothing in the file uses it",
            hint=f"variables of the file: {', '.join(sorted(given)) or 'none'}",
        )
    return made


def _check_names(given: Mapping[str, Node], values: Mapping[str, str]) -> None:
    for name in ("run", "name", _HERE):
        if name in given:
            raise wrong(given[name], f"the variable {name} is always there", hint="choose another name")
        if name in values:
            raise InvalidInputError(f"the variable {name} is always there", hint="choose another name")
    for name, value in values.items():
        if not NAME.fullmatch(name) or not isinstance(value, str):
            raise InvalidInputError(f"{shown(str(name))} is no variable", hint="names and values are texts")


def _check_label(text: object, what: str) -> None:
    if not isinstance(text, str) or not _LABEL.fullmatch(text):
        raise InvalidInputError(
            f"the {what} is {shown(str(text))}", hint="use at most 64 letters, digits and _ . + : -, as in 2026-11-14"
        )


def _pipeline(top: Mapping[str, Node], name: str, run: str, variables: Variables) -> Pipeline:
    reader = Reader(variables)
    defaults = {key: top[key] for key in ("storage", "commits") if key in top}
    spark = _keys(top["spark"], ("master", "config"), "spark") if "spark" in top else {}
    nodes = top["steps"].value
    if not isinstance(nodes, list) or not nodes:
        raise wrong(top["steps"], f"steps takes a list of steps, found {top['steps'].what}", hint="as in - compact: ..")
    if len(nodes) > STEPS_MAX:
        raise LimitExceededError(f"there are {len(nodes)} steps, over the limit of {STEPS_MAX}", hint="use more files")
    steps = tuple(_step(number, node, defaults, reader) for number, node in enumerate(nodes, 1))
    _check_ids(steps)
    return Pipeline(
        name=name,
        run=run,
        steps=steps,
        master=reader.text("master", spark["master"]) if "master" in spark else None,
        config=reader.map("config", spark["config"]) if "config" in spark else {},
        secrets=variables.secrets,
    )


def _step(number: int, node: Node, defaults: Mapping[str, Node], reader: Reader) -> Step:
    if not isinstance(node.value, dict):
        raise wrong(
            node, f"a step is its kind and its keys, found {node.what}", hint="as in - compact: {table: reviews}"
        )
    names = [name for name in node.value if name != "id"]
    for name in names:
        if name not in KINDS:
            raise wrong(node.value[name], f"there is no step {shown(name)}", hint=_near(name, KINDS, "steps"))
    if len(names) != 1:
        what = f"{len(names)} kinds" if names else "no kind"
        raise wrong(node, f"a step has one kind, and this one has {what}", hint="begin every step with a - of its own")
    kind, body = KINDS[names[0]], node.value[names[0]]
    given = _keys(
        body, kind.all_keys, f"the step {kind.name}", needed=[key for key, one in kind.keys.items() if one.needed]
    )
    if kind.one_of and not any(key in given for key in kind.one_of):
        raise wrong(body, f"the step {kind.name} says nothing to hold it to", hint=f"give {' or '.join(kind.one_of)}")
    reached = {**{key: one for key, one in defaults.items() if key in kind.also}, **given}
    settings = {key: reader.read(kind.all_keys[key], key, one) for key, one in reached.items()}
    try:
        kind.check(settings)
    except SiltstoneError as error:
        raise type(error)(
            f"line {body.line}: {error.message}", hint=error.hint, **{**error.facts, "line": body.line}
        ) from None
    step_id = f"{number}-{kind.name}"
    if "id" in node.value:
        step_id = reader.text("id", node.value["id"])
        if not _LABEL.fullmatch(step_id):
            raise wrong(
                node.value["id"], f"the id is {shown(step_id)}", hint="use at most 64 letters, digits and _ . + : -"
            )
    plain = {key: reader.plain(one) for key, one in given.items() if key not in _UNDIGESTED}
    digest = hashlib.sha256(json.dumps([kind.name, plain], sort_keys=True).encode()).hexdigest()[:12]
    return Step(number, step_id, kind, body.line, digest, settings)


def _check_ids(steps: Iterable[Step]) -> None:
    seen: dict[str, Step] = {}
    for step in steps:
        if step.id in seen:
            raise InvalidInputError(
                f"line {step.line}: the id {step.id!a} comes twice",
                hint=f"it is that of step {seen[step.id].number} in line {seen[step.id].line} too",
                line=step.line,
            )
        seen[step.id] = step


def _keys(node: Node, known: Iterable[str], what: str, *, needed: Iterable[str] = ()) -> dict[str, Node]:
    """The values behind keys, which must be known ones."""
    known = tuple(known)
    if not isinstance(node.value, dict):
        raise wrong(node, f"{what} takes keys and values, found {node.what}", hint=f"keys are {', '.join(known)}")
    for name, value in node.value.items():
        if name not in known:
            raise wrong(value, f"{what} has no key {shown(name)}", hint=_near(name, known, "keys"))
    for name in needed:
        if name not in node.value:
            raise wrong(node, f"{what} needs the key {name}", hint=f"keys are {', '.join(known)}")
    return dict(node.value)


def _near(name: str, known: Iterable[str], what: str) -> str:
    known = tuple(known)
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f"{f'did you mean {near[0]}? ' if near else ''}{what} are {', '.join(known)}"
