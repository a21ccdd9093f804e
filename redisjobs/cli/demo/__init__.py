"""`redisjobs demo`: a shop under faults, and a ledger that says what became of every order."""
