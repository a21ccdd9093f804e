"""Puts points into modules as they are imported, in a program of a test.

The source is read, the calls that points name are wrapped, and that is compiled, with the lines where they were.
Nothing of it is in the package: a program that does not ask for it imports the modules as they are, so in production
a point costs nothing. Nothing of it is written into a cache of bytecode either.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from tests.faults.points.point import Point

REACH = "__reach__"
"""The name by which a woven module calls us; it has no such name else."""

Reach = Callable[..., Any]


class _Weaver(ast.NodeTransformer):
    """Wraps the calls of one module: `f(a)` becomes `__reach__("name", f, a)`."""

    def __init__(self, points: Mapping[str, Point]) -> None:
        self._points = points
        self._within: list[str] = []
        self.woven: dict[str, int] = dict.fromkeys(points, 0)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._inside(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._inside(node)

    def _inside(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function, text = ".".join(self._within), ast.unparse(node)
        names = [
            name for name, each in self._points.items() if each.function == function and text.startswith(each.call)
        ]
        self.generic_visit(node)
        answer = node
        for name in names:
            self.woven[name] += 1
            wrapped = ast.Call(
                ast.Name(REACH, ast.Load()), [ast.Constant(name), answer.func, *answer.args], answer.keywords
            )
            answer = ast.copy_location(wrapped, node)
        return answer


def weave(source: str, points: Mapping[str, Point], path: str = "<source>") -> ast.Module:
    """A module with these points in it.

    Raises:
        AssertionError: the place of a point is not there exactly once.
    """
    weaver = _Weaver(points)
    tree: ast.Module = weaver.visit(ast.parse(source, path))
    for name, count in weaver.woven.items():
        place = f"{points[name].where}, {points[name].call}"
        assert count == 1, f"point {name} has {count} places, and not one: {place}"
    ast.fix_missing_locations(tree)
    return tree


class _Loader(SourceFileLoader):
    """Loads one module with its points, and knows no bytecode."""

    points: Mapping[str, Point]
    reach: Reach

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return compile(weave(self.get_source(fullname) or "", self.points, path), path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[REACH] = self.reach
        super().exec_module(module)


class Finder(MetaPathFinder):
    """Finds the modules that have points."""

    def __init__(self, points: Mapping[str, Point], reach: Reach) -> None:
        self._reach = reach
        self._of: dict[str, dict[str, Point]] = {}
        for name, each in points.items():
            self._of.setdefault(each.module, {})[name] = each

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._of:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None, f"there is no module {fullname}"
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.points, loader.reach = self._of[fullname], self._reach
        spec.loader = loader
        return spec

    def install(self) -> None:
        """From now on modules are imported with their points.

        Raises:
            AssertionError: one was imported before.
        """
        early = sorted(set(self._of) & set(sys.modules))
        assert not early, f"imported before its points could be put in: {', '.join(early)}"
        sys.meta_path.insert(0, self)
