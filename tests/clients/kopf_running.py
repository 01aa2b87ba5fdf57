"""An operator of kopf that runs while a script makes requests."""

import threading
import time

import kopf

# How long anything may take.
SECONDS = 60


def until(wanted, look, holds):
    """Returns what is found once it is as it has to be."""
    end = time.monotonic() + SECONDS
    while True:
        found = look()
        if holds(found):
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{wanted} does not come: {found}")
        time.sleep(0.1)


class Operator:
    """An operator with the handlers of a registry, in a thread of its own."""

    def __init__(self, registry):
        self.stop = threading.Event()
        ready = threading.Event()
        options = {
            "registry": registry,
            "standalone": True,
            "namespaces": ["default"],
            "ready_flag": ready,
            "stop_flag": self.stop,
        }
        self.thread = threading.Thread(target=kopf.run, kwargs=options)
        self.thread.start()
        if not ready.wait(SECONDS):
            self.end()
            raise AssertionError("the operator does not start")

    def end(self):
        self.stop.set()
        self.thread.join()
