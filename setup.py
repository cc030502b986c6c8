"""Builds the kernels: a plain shared library per instruction set, which any Python loads (see pyproject.toml)."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent / "build_support"))
import compiler


class BuildKernels(build_ext):
    def build_extension(self, ext: Extension) -> None:
        try:
            compiler.build(
                ext.name.rsplit(".", 1)[1], Path(self.get_ext_fullpath(ext.name)), compiler.HERE / "build" / "objects"
            )
        except compiler.CompilerError as error:
            sys.exit(str(error))

    def copy_extensions_to_source(self) -> None:
        """For an editable installation; setuptools expects the folder to be there."""
        (compiler.SOURCES / "lib").mkdir(exist_ok=True)
        super().copy_extensions_to_source()

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split("."))) + compiler.suffix()


class AnyPython(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        _, _, system = super().get_tag()
        wished = compiler.target()
        return "py3", "none", compiler.WHEELS[wished][0] if wished else system


setup(
    ext_modules=[Extension(f"asot.native.lib.{level}", []) for level in compiler.levels()],
    cmdclass={"build_ext": BuildKernels, "bdist_wheel": AnyPython},
)
