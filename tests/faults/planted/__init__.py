"""Bugs that are planted into a copy of the tree: the tests that are named for each must see it."""
