from __future__ import annotations

import pickle

from siltstone.errors import CommitUnknownError

OP = "0f8c1d2e3a4b5c6d7e8f90a1b2c3d4e5"


def test_commit_unknown__with_an_op_id__shows_it_once():
    error = CommitUnknownError("no answer", hint="look the op id up", op=OP)
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == f"no answer (look the op id up); op {OP}"
    assert str(CommitUnknownError(f"no answer to {OP}", op=OP)).count(OP) == 1


def test_commit_unknown__without_an_op_id__is_told_as_any_other():
    assert str(CommitUnknownError("no answer", hint="look")) == "no answer (look)"
