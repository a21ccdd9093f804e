"""Messages between a worker and the process of a body (rule W10)."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading

from redisjobs.base.frames import Frames
from tests.support.eventually import eventually_now


def test_a_copy_forked_off_while_a_message_is_under_way_says_nothing_and_is_not_stuck() -> None:
    ours, theirs = socket.socketpair()
    frames, reader = Frames(ours), Frames(theirs)
    message = {"text": b"x" * (8 << 20)}  # more than the socket takes: the sender holds the lock until it is read
    sender = threading.Thread(target=frames.send, args=[message], daemon=True)
    sender.start()
    eventually_now(lambda: bool(select.select([theirs], [], [], 0)[0]), "the message is under way")
    assert sender.is_alive()

    copy = os.fork()
    if copy == 0:
        frames.send({"text": b"from the copy"})
        os._exit(0)

    try:
        eventually_now(lambda: os.waitpid(copy, os.WNOHANG)[0] == copy, "the copy went on, and ended")
    except AssertionError:
        os.kill(copy, signal.SIGKILL)
        raise
    assert reader.receive() == message
    frames.send({"text": b"next"})
    assert reader.receive() == {"text": b"next"}
    frames.close()
    reader.close()
