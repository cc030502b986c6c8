"""Which C++ compiler builds the kernels, and for what: the machine's own, else zig's from PyPI.

``CXX`` names another compiler, and ``ASOT_BUILD_FOR`` (a zig target such as aarch64-macos.11.0) another system. Run
this file to build in place: ``python build_support/compiler.py``, with the names of instruction sets to build only some
of them, and ``--sanitize`` for libraries that check themselves, in ``build/sanitized``; ``--sanitize=exact,bounds``:
only the kernels of these rooms do.
"""

from __future__ import annotations

import functools
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
SOURCES = HERE / "src" / "asot" / "native"

FLAGS = [
    "-std=c++17",
    "-O3",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-asynchronous-unwind-tables",
    "-Wall",
    "-Wextra",
    "-Wno-unknown-warning-option",  # those below are not the same in GCC and Clang
    "-Wno-unused-private-field",
    "-Wno-psabi",
    "-Wno-ignored-attributes",
    "-Wno-maybe-uninitialized",
    "-Wno-uninitialized",
]
"""-ffp-contract=off: products are fused only where a kernel says so, so that bits do not depend on the compiler."""

SANITIZED = [
    "-g1",
    "-O1",
    "-DASOT_CHECKED",
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize=alignment,null,object-size",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
]
"""What the address sanitizer sees anyway (null, object-size) would double the time to compile."""

LEVELS = {"baseline": "x86-64-v2", "avx2": "haswell", "avx512": "x86-64-v4"}
"""Instruction sets of x86-64 and the processors that stand for them. Other processors have the first one only."""

WHEELS = {  # zig's name of a system: (platform tag of the wheel, suffix of a shared library)
    "x86_64-linux-gnu.2.17": ("manylinux2014_x86_64", ".so"),
    "aarch64-linux-gnu.2.17": ("manylinux2014_aarch64", ".so"),
    "x86_64-linux-musl": ("musllinux_1_2_x86_64", ".so"),
    "aarch64-linux-musl": ("musllinux_1_2_aarch64", ".so"),
    "x86_64-macos.11.0": ("macosx_11_0_x86_64", ".dylib"),
    "aarch64-macos.11.0": ("macosx_11_0_arm64", ".dylib"),
    "x86_64-windows-gnu": ("win_amd64", ".dll"),
}


class CompilerError(Exception):
    """The kernels could not be compiled."""


def target() -> str | None:
    """The system to build for, or None for this one."""
    wished = os.environ.get("ASOT_BUILD_FOR")
    if wished and wished not in WHEELS:
        raise CompilerError(f"ASOT_BUILD_FOR must be one of {', '.join(WHEELS)}; found {wished!r}")
    return wished or None


def own_compiler() -> list[str] | None:
    """The compiler of this machine, if it can compile kernels, or None: then zig's is installed for the build."""
    if target():
        return None
    if os.environ.get("CXX"):
        named = shlex.split(os.environ["CXX"], posix=os.name != "nt")
        if said := _complaint(tuple(named)):
            raise CompilerError(
                f"asot's kernels cannot be compiled, because CXX={os.environ['CXX']!r} fails on a small C++17 program: "
                "set CXX to GCC 12 or later, to Clang, or to nothing (then a compiler is found or taken from PyPI). "
                f"It said: {said}"
            )
        return named
    found = (path for name in ("c++", "g++", "clang++") if (path := shutil.which(name)))
    return next(([path] for path in found if not _complaint((path,))), None)


@functools.cache
def _complaint(compiler: tuple[str, ...]) -> str:
    """What this compiler says against a small program with what all kernels use; nothing if it can do it."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "small.cpp"), Path(folder, "small" + suffix())
        source.write_text('#include "common/lanes.hpp"\nint lanes() { return LANES; }\n')
        options = [*FLAGS, *_for_level(levels()[-1], is_zig=_is_zig(compiler)), "-O0", f"-I{SOURCES}", "-shared"]
        try:
            done = subprocess.run(
                [*compiler, *options, str(source), "-o", str(made)], capture_output=True, text=True, check=False
            )
        except OSError as error:
            return str(error)
        return "" if done.returncode == 0 and made.exists() else done.stderr[-1000:].strip() or "nothing"


def _is_zig(compiler: tuple[str, ...]) -> bool:
    return any(Path(word).stem in ("zig", "ziglang") for word in compiler)


def suffix() -> str:
    if wished := target():
        return WHEELS[wished][1]
    return {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def levels() -> list[str]:
    """The instruction sets to build for."""
    is_x86 = (target() or platform.machine().lower()).startswith(("x86_64", "amd64"))
    return list(LEVELS) if is_x86 else ["baseline"]


def _for_level(level: str, *, is_zig: bool) -> list[str]:
    options = ["-fPIC"] if suffix() != ".dll" else []
    if levels() == list(LEVELS):
        cpu = LEVELS[level]
        options.append(f"-mcpu={cpu.replace('-', '_')}" if is_zig else f"-march={cpu}")
        if level == "avx512":
            options.append("-mprefer-vector-width=512")
    return options


def build(level: str, library: Path, objects: Path, *, sanitize: str | None = None) -> None:
    """Compile what has changed for one instruction set, and link it without the C++ runtime, which it does not use.

    ``sanitize``: rooms whose kernels check themselves, with commas between them; "" for all, None for none.
    """
    own = own_compiler()
    compiler = own or [sys.executable, "-m", "ziglang", "c++"]
    is_zig = _is_zig(tuple(compiler))
    for_system = ["-target", wished] if (wished := target()) else []
    folder = objects / (target() or "own")
    library.parent.mkdir(parents=True, exist_ok=True)

    def compiled(source: Path) -> Path:
        place = source.relative_to(SOURCES).with_suffix(".o").parts
        checked = sanitize is not None and (not sanitize or place[0] in sanitize.split(","))
        options = [*for_system, *FLAGS, *(SANITIZED if checked else []), *_for_level(level, is_zig=is_zig)]
        made = folder / (level + ("-sanitized" if checked else "")) / "_".join(place)
        _compile([*compiler, *options], source, made)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        made = list(workers.map(compiled, sorted(SOURCES.rglob("*.cpp"))))
    link = [*_linker(compiler, is_zig, sanitize is not None), *for_system, "-shared"]
    if suffix() != ".dll":
        link.append("-fPIC")
    if suffix() == ".so" and sanitize is None:
        link.append("-Wl,-z,defs")  # elsewhere, linkers refuse symbols that nobody has anyway
    link += SANITIZED if sanitize is not None else ([] if suffix() == ".dylib" else ["-s"])
    temporary = library.with_suffix(f".{os.getpid()}.tmp")
    _run([*link, *map(str, made), *([] if suffix() == ".dll" else ["-lm"]), "-o", str(temporary)])
    os.replace(temporary, library)  # a process that has the old one open keeps it
    for kind in ("pdb", "lib") if suffix() == ".dll" else ():  # which linkers leave beside it
        for unused in library.parent.glob(f"*.{kind}"):
            unused.unlink()


def _compile(command: list[str], source: Path, made: Path) -> None:
    """Compile one file, unless neither it, nor a header that it includes, nor the command has changed."""
    command = [*command, "-MMD", "-c", str(source), "-o", str(made)]
    recorded, listed = made.with_suffix(".command"), made.with_suffix(".d")
    if made.exists() and recorded.exists() and recorded.read_text() == shlex.join(command) and listed.exists():
        parts = listed.read_text().replace("\\\n", " ").split(": ", 1)[1].split()
        if all(Path(part).exists() and Path(part).stat().st_mtime <= made.stat().st_mtime for part in parts):
            return
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:  # another process may be building the same
        _run([*command[:-1], str(Path(folder, made.name)), "-MF", str(Path(folder, listed.name))])
        os.replace(Path(folder, listed.name), listed)
        os.replace(Path(folder, made.name), made)
    recorded.write_text(shlex.join(command))


def _linker(compiler: list[str], is_zig: bool, sanitize: bool) -> list[str]:
    """The C compiler beside the C++ one: it links no C++ runtime."""
    if is_zig:
        return [*compiler[:-1], "cc"]
    name = compiler[-1]
    if sanitize or ("g++" not in name and not name.endswith("c++")):
        return compiler
    plain = name.replace("clang++", "clang").replace("g++", "gcc").replace("c++", "cc")
    return [*compiler[:-1], plain] if shutil.which(plain) else compiler


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CompilerError(_way_out(command[0], str(error))) from None
    if done.returncode:
        raise CompilerError(_way_out(shlex.join(command), done.stderr[-4000:]))
    if done.stderr:
        sys.stderr.write(done.stderr)


def _way_out(command: str, said: str) -> str:
    return (
        f"asot's kernels could not be compiled. The command was: {command}\n"
        f"The compiler said: {said.strip() or 'nothing'}\n"
        "Set CXX to a working C++17 compiler, or CXX='python -m ziglang c++' after `pip install ziglang`, and install "
        "again."
    )


def main() -> None:
    sanitize = next((word.partition("=")[2] for word in sys.argv[1:] if word.startswith("--sanitize")), None)
    wished = [word for word in sys.argv[1:] if not word.startswith("-")] or levels()
    folder = HERE / "build" / "sanitized" if sanitize is not None else SOURCES / "lib"
    for level in wished:
        try:
            build(level, folder / (level + suffix()), HERE / "build" / "objects", sanitize=sanitize)
        except CompilerError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
