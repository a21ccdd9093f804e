"""A job queue on Postgres and Redis: committing a transaction is enqueuing the job."""
