"""Named points in the code, between two effects whose order matters; a test program can be hit at each of them."""
