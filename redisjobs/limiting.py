"""What a call wants of the limits of its job: keys and weights computed from its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from redisjobs.base.signature import Signature
from redisjobs.errors import ConfigurationError, EnqueueError
from redisjobs.keying import Keying
from redisjobs.limits import AnyLimit, Limit


class Share(NamedTuple):
    """What one attempt wants of one limit, which has a name by now."""

    limit: AnyLimit
    key: str | None = None
    weight: int = 1


class Limiting:
    """Works out the shares of each call of a job.

    Args:
        limits: each under its name.

    Raises:
        OptionError: a key or a weight is computed of an argument that the job has not.
    """

    def __init__(self, limits: tuple[AnyLimit, ...], signature: Signature) -> None:
        self.limits = limits
        self._signature = signature
        self._of = [(each, _keying("key", each.key, signature), _weighing(each, signature)) for each in limits]

    def of(self, arguments: Mapping[str, Any]) -> list[Share]:
        """The shares of a call with these arguments, to which defaults are added. Without a key there is none.

        Raises:
            ConfigurationError: a key or a weight cannot be computed.
        """
        given = self._signature.by_name((), dict(arguments))
        shares: list[Share] = []
        for limit, keying, weighing in self._of:
            try:
                key = None if keying is None else keying.of(given)
                if keying is None or key is not None:
                    shares.append(Share(limit, key, _weight(limit, weighing, given)))
            except EnqueueError as error:
                raise ConfigurationError(f"limit {limit.name!r}: {error}") from error
        return shares


def _keying(option: str, rule: Any, signature: Signature) -> Keying | None:
    return None if rule is None else Keying(option, rule, signature)


def _weighing(limit: AnyLimit, signature: Signature) -> Keying | None:
    if not isinstance(limit, Limit) or isinstance(limit.weight, int):
        return None
    return Keying("weight", limit.weight, signature)


def _weight(limit: AnyLimit, weighing: Keying | None, arguments: Mapping[str, Any]) -> int:
    if weighing is None:
        return limit.weight if isinstance(limit, Limit) and isinstance(limit.weight, int) else 1
    weight = weighing.value(arguments)
    if type(weight) is not int or weight < 1:
        raise ConfigurationError(f"limit {limit.name!r}: weight is {weight!r}: a weight is a whole number from 1")
    most = limit.most if isinstance(limit, Limit) else 1
    return min(weight, most)
