"""The page on errors: the tree, what each means, and the exit code that it ends a command with."""

from __future__ import annotations

import inspect

from redisjobs import errors
from redisjobs.cli.exits import code_of
from reference.markdown import arguments, code, fence, page, summary, table

INTRO = """\
All are in `redisjobs.errors`, and those that a program catches in `redisjobs` too. Catch the nearest one that you can
do something about; `RedisjobsError` is the root. What a store said stands in `__cause__`."""
SIGNALS = """\
## Signals of a body

A body raises one to steer its own job. They derive from `BaseException`, so that an `except Exception` of the body lets
them pass."""


def page_of_errors() -> str:
    """The page."""
    found = [each for each in vars(errors).values() if inspect.isclass(each) and each.__module__ == errors.__name__]
    raised = [each for each in found if issubclass(each, errors.RedisjobsError)]
    signals = [each for each in found if issubclass(each, errors.Signal) and each is not errors.Signal]
    tree = (errors.__doc__ or "").partition("\n\n")[2]
    return page(
        "Errors",
        INTRO,
        fence("text", tree),
        table(["error", "also a", "means", "attributes", "exit code"], (_row(each) for each in raised)),
        SIGNALS,
        table(
            ["signal", "means", "arguments"], ([code(each.__name__), summary(each), _told(each)] for each in signals)
        ),
    )


def _row(error: type[errors.RedisjobsError]) -> list[str]:
    others = [base.__name__ for base in error.__bases__ if base.__module__ == "builtins"]
    exit_code = code_of(error.__new__(error))
    return [code(error.__name__), ", ".join(code(each) for each in others if each != "Exception"), summary(error),
            _told(error), str(exit_code)]  # fmt: skip


def _told(thing: object) -> str:
    return "; ".join(f"`{name}`: {text.rstrip('.')}" for name, text in arguments(thing).items())
