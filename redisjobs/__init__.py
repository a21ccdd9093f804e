"""A job queue on Postgres and Redis: committing a transaction is enqueuing the job."""

from redisjobs.app import App
from redisjobs.backoff import Backoff
from redisjobs.base.codec import EncryptedCodec
from redisjobs.call import Call, Handle, Options
from redisjobs.context import Context, current
from redisjobs.errors import (
    ArgumentsError,
    BrokerUnavailable,
    Cancel,
    ConfigurationError,
    DatabaseUnavailable,
    Dead,
    DecodeError,
    EncodeError,
    EnqueueError,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobTimeoutError,
    LeaseLost,
    OptionError,
    ProcessEnded,
    RedisjobsError,
    ResultTimeout,
    Retry,
    Signal,
    Snooze,
    StoreRefused,
    StoreUnavailable,
    UnknownJobError,
)
from redisjobs.job import BoundJob, Job
from redisjobs.middleware import EnqueueMiddleware, Middleware, Next
from redisjobs.progress import Progress
from redisjobs.sync import SyncClient

__all__ = [
    "App",
    "ArgumentsError",
    "Backoff",
    "BoundJob",
    "BrokerUnavailable",
    "Call",
    "Cancel",
    "ConfigurationError",
    "Context",
    "DatabaseUnavailable",
    "Dead",
    "DecodeError",
    "EncodeError",
    "EncryptedCodec",
    "EnqueueError",
    "EnqueueMiddleware",
    "Handle",
    "Job",
    "JobCancelled",
    "JobExpired",
    "JobFailed",
    "JobTimeoutError",
    "LeaseLost",
    "Middleware",
    "Next",
    "OptionError",
    "Options",
    "ProcessEnded",
    "Progress",
    "RedisjobsError",
    "ResultTimeout",
    "Retry",
    "Signal",
    "Snooze",
    "StoreRefused",
    "StoreUnavailable",
    "SyncClient",
    "UnknownJobError",
    "current",
]
