"""Nothing is read before an `await` and written behind it where another task may have written meanwhile."""

from __future__ import annotations

import ast
from collections.abc import Generator
from pathlib import Path

import redisjobs

CODE = Path(redisjobs.__file__).parent


def awaits_between(tree: ast.AST) -> Generator[tuple[int, str]]:
    """Every `x += await …` of what others may know too: Python reads x first, and writes over what came meanwhile."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        inner = [node for node in ast.walk(function) if isinstance(node, ast.AST)]
        shared = {name for node in inner if isinstance(node, ast.Nonlocal | ast.Global) for name in node.names}
        for node in inner:
            if not isinstance(node, ast.AugAssign) or not any(isinstance(x, ast.Await) for x in ast.walk(node.value)):
                continue
            if not isinstance(node.target, ast.Name) or node.target.id in shared:
                yield node.lineno, ast.unparse(node)


def test_no_sum_is_added_up_over_an_await() -> None:
    found = {
        f"{path.relative_to(CODE)}:{line}: {text}"
        for path in sorted(CODE.rglob("*.py"))
        for line, text in awaits_between(ast.parse(path.read_text()))
    }
    assert found == set(), "await it first, then add it in a line of its own"


def test_a_sum_over_an_await_is_found() -> None:
    code = """
async def outer(self):
    total = count = 0
    async def inner():
        nonlocal total
        total += await self.one()
    self.seen |= 1 + await self.two()
    count += await self.three()
    found = await self.four()
    self.seen |= found
"""
    assert {text for _, text in awaits_between(ast.parse(code))} == {
        "total += await self.one()",
        "self.seen |= 1 + await self.two()",
    }
