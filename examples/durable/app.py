"""What a worker imports: the app, and with these modules all its jobs."""

import fan_out  # noqa: F401  - declares its jobs
import onboarding  # noqa: F401
import order_saga  # noqa: F401
import transfer  # noqa: F401
from shop import app

__all__ = ["app"]
