"""A job queue on Postgres and Redis: committing a transaction is enqueuing the job."""

from redisjobs.app import App
from redisjobs.backoff import Backoff
from redisjobs.base.codec import EncryptedCodec
from redisjobs.batch import BatchCall, BatchContext
from redisjobs.batch_job import BatchJob
from redisjobs.call import Call, Handle, Options
from redisjobs.context import Context, current
from redisjobs.durable import Event
from redisjobs.errors import (
    ArgumentsError,
    BrokerUnavailable,
    Cancel,
    ChildFailed,
    ConfigurationError,
    DatabaseUnavailable,
    Dead,
    DecodeError,
    EncodeError,
    EnqueueError,
    JobAbortedError,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobTimeoutError,
    LeaseLost,
    OptionError,
    ProcessEnded,
    RateLimited,
    RedisjobsError,
    ResultTimeout,
    Retry,
    Signal,
    Snooze,
    StepDuplicateError,
    StepFailed,
    StepRefused,
    StepTimeoutError,
    StoreRefused,
    StoreUnavailable,
    UnknownJobError,
)
from redisjobs.events import NewEvent
from redisjobs.job import BoundJob, Job
from redisjobs.limits import Limit, Rate
from redisjobs.middleware import EnqueueMiddleware, Middleware, Next
from redisjobs.occurrence import Occurrence
from redisjobs.policy import Debounce, Singleton, Throttle
from redisjobs.progress import Progress
from redisjobs.sync import SyncClient

__all__ = [
    "App",
    "ArgumentsError",
    "Backoff",
    "BatchCall",
    "BatchContext",
    "BatchJob",
    "BoundJob",
    "BrokerUnavailable",
    "Call",
    "Cancel",
    "ChildFailed",
    "ConfigurationError",
    "Context",
    "DatabaseUnavailable",
    "Dead",
    "Debounce",
    "DecodeError",
    "EncodeError",
    "EncryptedCodec",
    "EnqueueError",
    "EnqueueMiddleware",
    "Event",
    "Handle",
    "Job",
    "JobAbortedError",
    "JobCancelled",
    "JobExpired",
    "JobFailed",
    "JobTimeoutError",
    "LeaseLost",
    "Limit",
    "Middleware",
    "NewEvent",
    "Next",
    "Occurrence",
    "OptionError",
    "Options",
    "ProcessEnded",
    "Progress",
    "Rate",
    "RateLimited",
    "RedisjobsError",
    "ResultTimeout",
    "Retry",
    "Signal",
    "Singleton",
    "Snooze",
    "StepDuplicateError",
    "StepFailed",
    "StepRefused",
    "StepTimeoutError",
    "StoreRefused",
    "StoreUnavailable",
    "SyncClient",
    "Throttle",
    "UnknownJobError",
    "current",
]
