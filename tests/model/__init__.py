"""A model of the protocol: every statement and every script as one step, in any order, with faults between any two.

`world.py` runs it, `ledger.py` judges it, `rules.py` names the rules that can be taken away. Its Redis is held against
the real scripts by `test_model_lockstep.py`; `test_model_sessions.py` takes the real statements apart in the same way.
`python -m tests.model` explores.
"""
