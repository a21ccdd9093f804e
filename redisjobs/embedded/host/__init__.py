"""The host: a process of its own, the direct parent of both servers, that ends them when nobody needs them.

It is run as `python -I -S` with this package as a top level one, so its modules import only the
standard library and each other.
"""
