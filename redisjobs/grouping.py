"""The groups of a call among the jobs of its queue: its lane, its share, and its key with a policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redisjobs.base.signature import Signature
from redisjobs.call import Options, as_seconds
from redisjobs.declaration import Declaration
from redisjobs.errors import OptionError
from redisjobs.keying import Keying
from redisjobs.policy import Debounce, Policy, columns_of

KEY_CHARACTERS = 120
"""Of the part of a policy's key that is computed: with the job's name it fits in 512 bytes."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Columns of an outbox row. Seconds."""

    lane: str | None = None
    share_key: str | None = None
    idempotency_key: str | None = None
    key_policy: str | None = None
    key_window: float | None = None
    key_wait: float | None = None
    key_longest: float | None = None


class Grouping:
    """Works out the groups of each call of a job, from what it declares and what the call was given.

    Raises:
        OptionError: the declaration computes a key of an argument that the job has not.
    """

    def __init__(self, declaration: Declaration, signature: Signature) -> None:
        self._signature = signature
        self._lane = _keying("lane", declaration.lane, signature)
        self._share = _keying("share", declaration.share, signature)
        self._policy = declaration.policy
        self._key = None if self._policy is None else _keying("key", self._policy.key, signature, KEY_CHARACTERS)
        self.is_plain = self._lane is None and self._share is None and self._policy is None

    def of(self, options: Options, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Groups:
        """The groups of a call with these options and arguments, which fit the signature.

        Raises:
            OptionError: an option of the call that the job's policy leaves no room for.
            EnqueueError: a key cannot be computed.
        """
        arguments = self._signature.by_name(args, kwargs)
        lane = self._lane.of(arguments) if options.lane is None and self._lane is not None else options.lane
        share = self._share.of(arguments) if options.share is None and self._share is not None else options.share
        given = options.policy
        policy = self._policy if given is None else given
        key = None if policy is None else self._key_of(policy, options, arguments)
        if policy is None or key is None:
            return Groups(lane, share, options.idempotency_key, key_window=as_seconds(options.window))
        if given is None:
            self._check(policy, options)
        columns = columns_of(policy)
        return Groups(
            lane, share, key, columns.key_policy, columns.key_window, columns.key_wait, columns.key_longest
        )  # fmt: skip

    def _key_of(self, policy: Policy, options: Options, arguments: dict[str, Any]) -> str | None:
        """The group in which the policy works; None: this call is in none."""
        if options.idempotency_key is not None and policy is not self._policy:
            return options.idempotency_key
        keying = self._key if policy is self._policy else _keying("key", policy.key, self._signature, KEY_CHARACTERS)
        if keying is None:
            return self._signature.name
        computed = keying.of(arguments)
        return None if computed is None else f"{self._signature.name}:{computed}"

    def _check(self, policy: Policy, options: Options) -> None:
        kind, job = type(policy).__name__, self._signature.name
        if options.idempotency_key is not None:
            why = f"is the key of one call, and job {job!r} declares {kind}(…), which has its own: leave it out"
            raise OptionError("idempotency_key", options.idempotency_key, why)
        if isinstance(policy, Debounce) and (options.delay is not None or options.run_at is not None):
            name = "delay" if options.delay is not None else "run_at"
            why = f"says when to run, and so does the Debounce(…) of job {job!r}: leave it out"
            raise OptionError(name, getattr(options, name), why)


def _keying(option: str, rule: Any, signature: Signature, most: int = 200) -> Keying | None:
    return None if rule is None else Keying(option, rule, signature, most=most)
