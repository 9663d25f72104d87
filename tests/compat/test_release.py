"""What a release would upload works for somebody who has nothing else; see tools/release_check.py."""

from __future__ import annotations

import importlib.util
import tarfile
import zipfile

import pytest

from sources import ROOT

spec = importlib.util.spec_from_file_location("release_check", ROOT / "tools" / "release_check.py")
release_check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(release_check)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist of the sources as they are."""
    directory = tmp_path_factory.mktemp("dist")
    release_check.build(ROOT, directory, "--wheel", "--sdist")
    [wheel], [sdist] = directory.glob("*.whl"), directory.glob("*.tar.gz")
    return wheel, sdist


@pytest.mark.slow
def test_wheel__installed_alone__is_used_and_typed_from_outside_of_the_repository(built, tmp_path):
    release_check.check_wheel(built[0])
    release_check.check_installed(release_check.install(built[0], tmp_path / "venv"), tmp_path)


@pytest.mark.slow
def test_sdist__unpacked__gives_the_same_wheel(built, tmp_path):
    release_check.check_sdist(built[1], built[0], tmp_path)


def test_check_wheel__a_file_is_missing_or_too_much__is_told(built, tmp_path):
    for name, change in (("less", lambda names: names[:-1]), ("more", lambda names: [*names, "siltstone/extra.txt"])):
        spoiled = tmp_path / f"{name}.whl"
        with zipfile.ZipFile(built[0]) as whole, zipfile.ZipFile(spoiled, "w") as part:
            ours = [one for one in whole.namelist() if one.startswith("siltstone/")]
            for one in change(sorted(ours)):
                part.writestr(one, "")
        with pytest.raises(release_check.ReleaseError, match="lacks"):
            release_check.check_wheel(spoiled)


def test_sdist__looked_into__has_no_file_of_a_developers_machine(built):
    with tarfile.open(built[1]) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert [
        name for name in names if name.startswith((".venv", ".git/", "build/", "dist/")) or "__pycache__" in name
    ] == []
    assert {"tests/compat/v1/expected.json", "tests/compat/v1/tables/expected.json"} <= set(names)
