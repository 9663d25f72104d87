"""Build what a release would upload, install it into an empty environment, and use it as somebody else would.

``python tools/release_check.py [DIRECTORY]`` leaves the wheel and the sdist in DIRECTORY, a temporary one by default.
Nothing is downloaded: dependencies are those of the environment that runs this, shown to the new one by a path file.

What must hold of a wheel: the command runs, a table is made and read from outside of the repository, nothing is
imported from its sources, types and all files beside the modules are in it, and a strict type checker accepts a program
that uses the public names. Of an sdist: a wheel built of it has the same files, and the tests and pages are there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("siltstone", "pyspark_siltstone")
CONSUMER = ROOT / "tests" / "compat" / "consumer.py"
NO_SOURCES = (".pyc", ".pyo")
IN_SDIST = ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "docs/format.md", "tests/conftest.py")
TIMEOUT_S = 600


class ReleaseError(Exception):
    """What would be released is not as it must be."""


def run(*command: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    """What a command prints; its errors are told."""
    done = subprocess.run(  # noqa: S603 - its own commands
        command, cwd=cwd, env=env, stdout=-1, stderr=-1, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def build(source: Path, target: Path, *kinds: str) -> None:
    """Build distributions of the sources in a directory."""
    run(sys.executable, "-m", "build", *kinds, "--no-isolation", "--outdir", str(target), str(source), cwd=target)


def files_of_wheel(wheel: Path) -> set[str]:
    """What it installs, but for its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if name.partition("/")[0] in PACKAGES}


def files_of_source(source: Path) -> set[str]:
    """Every file of the packages: modules, and what lies beside them."""
    found = (one for name in PACKAGES for one in (source / "src" / name).rglob("*") if one.is_file())
    kept = (one for one in found if one.suffix not in NO_SOURCES and "__pycache__" not in one.parts)
    return {one.relative_to(source / "src").as_posix() for one in kept}


def check_wheel(wheel: Path, source: Path = ROOT) -> None:
    """All files of the sources are in it, and no others."""
    inside, wanted = files_of_wheel(wheel), files_of_source(source)
    if inside != wanted:
        raise ReleaseError(f"{wheel.name} lacks {sorted(wanted - inside)} and has {sorted(inside - wanted)} besides")
    if "siltstone/py.typed" not in inside:
        raise ReleaseError(f"{wheel.name} has no siltstone/py.typed, without which its types are not looked at")


def check_sdist(sdist: Path, wheel: Path, directory: Path) -> None:
    """A wheel can be built of it, the same one, and it has what a packager needs."""
    with tarfile.open(sdist) as archive:
        archive.extractall(directory, filter="data")
    [source] = directory.iterdir()
    lacking = [name for name in IN_SDIST if not (source / name).is_file()]
    if lacking:
        raise ReleaseError(f"{sdist.name} lacks {lacking}")
    target = directory / "wheel"
    target.mkdir()
    build(source, target, "--wheel")
    [again] = target.glob("*.whl")
    if files_of_wheel(again) != files_of_wheel(wheel):
        raise ReleaseError(f"the wheel that is built of {sdist.name} has other files than {wheel.name}")


def install(wheel: Path, directory: Path) -> Path:
    """A new environment with the wheel, which finds dependencies where this one has them; returns its Python."""
    venv.create(directory, with_pip=False, symlinks=True)
    python = directory / "bin" / "python"
    place = Path(
        run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=directory).strip()
    )
    command = ("-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet", str(wheel))
    run(sys.executable, *command, cwd=directory)
    # A path file is read line by line, and the path files of the directory that it names are not: the sources, which an
    # editable install names in one, stay out of sight.
    (place / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def check_installed(python: Path, directory: Path, source: Path = ROOT) -> None:
    """Use it from outside of the repository."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MYPY"))}
    work = directory / "work"
    work.mkdir()
    told = run(str(python.parent / "siltstone"), "--version", cwd=work, env=env)
    script = (
        "import sys, siltstone, siltstone.api, siltstone.cli, importlib.metadata as metadata\n"
        "print(metadata.version('siltstone'))\n"
        "print(*sorted({str(getattr(module, '__file__', '')) for name, module in sys.modules.items() "
        "if name.partition('.')[0] in ('siltstone', 'pyspark_siltstone')}), sep='\\n')\n"
    )
    version, *modules = run(str(python), "-c", script, cwd=work, env=env).split()
    if version not in told:
        raise ReleaseError(f"the command says {told.strip()!r}, the package is {version}")
    outside = [name for name in modules if str(source) in name and not name.startswith(str(directory))]
    if outside or len(modules) < 50:
        raise ReleaseError(f"modules come from the sources: {outside[:3]}, of {len(modules)}")
    program = work / "consumer.py"
    program.write_text(CONSUMER.read_text())
    if "consumed" not in run(str(python), str(program), str(work), cwd=work, env=env):
        raise ReleaseError("the program did not come to its end")
    checker = ("-m", "mypy", "--strict", "--python-executable", str(python), "--config-file", os.devnull)
    cache = ("--cache-dir", str(source / ".mypy_cache" / "release"), str(program))
    # pyarrow has no types of its own; what is ours is checked without exception.
    run(sys.executable, *checker, "--disable-error-code", "import-untyped", *cache, cwd=work, env=env)


def main(directory: Path) -> None:
    """Build, install, use."""
    directory.mkdir(parents=True, exist_ok=True)
    build(ROOT, directory, "--wheel", "--sdist")
    [wheel], [sdist] = directory.glob("*.whl"), directory.glob("*.tar.gz")
    check_wheel(wheel)
    print(f"{wheel.name}: {len(files_of_wheel(wheel))} files, all of the sources")
    with tempfile.TemporaryDirectory(prefix="siltstone-release-") as made:
        check_installed(install(wheel, Path(made) / "venv"), Path(made))
        print("installed and used, typed, without the sources")
        place = Path(made) / "sdist"
        place.mkdir()
        check_sdist(sdist, wheel, place)
    print(f"{sdist.name}: the same wheel can be built of it")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="siltstone-dist-")))
