"""`redisjobs webhooks`: endpoints, and deliveries that failed."""
