"""setuptools, and zig's compiler from PyPI where the machine has none."""

from __future__ import annotations

import sys
from typing import Any

import compiler
from setuptools import build_meta as _usual
from setuptools.build_meta import *  # noqa: F403


def _compiler_to_install() -> list[str]:
    try:
        return [] if compiler.own_compiler() else ["ziglang>=0.13"]
    except compiler.CompilerError as error:
        sys.exit(str(error))  # before setuptools says anything, so that it is all there is to read


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return [*_compiler_to_install(), *_usual.get_requires_for_build_wheel(config_settings)]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return [*_compiler_to_install(), *_usual.get_requires_for_build_editable(config_settings)]
