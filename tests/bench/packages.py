#!/usr/bin/env python3
"""Measures programs that are made for packages: how fast they start, the CPU of writes and lists, and their memory.

    tests/bench/packages.py BINARY...

Each round takes the programs one after the other, so that what else the machine does concerns all of them. The figures
are medians of the rounds. CPU is the time of all threads, as the kernel counts it in nanoseconds. Four connections
create 4,000 ConfigMaps of 1 KiB, and then list all of them 40 times. Memory is what the process has of its own
(RssAnon): when it is ready, at the end of the lists, and 15 s later, when the heap was trimmed.
"""

import argparse
import http.client
import os
import ssl
import statistics
import sys
import tempfile
import threading
import time

from instructions import Daemon, config_map

CONNECTIONS, CREATES, LISTS = 4, 4000, 40
PATH = "/api/v1/namespaces/default/configmaps"
PAUSE = 15


class Measured(Daemon):
    """A daemon with the settings that users have, and what it has used."""

    settings = ("--secure-port=0", "--metrics-bind-address=0", "--log-level=error")
    pause = 0.002

    def __init__(self, binary, data):
        self.begin = time.monotonic()
        super().__init__(binary, (), data)
        self.started = time.monotonic() - self.begin

    def cpu(self):
        """Seconds of CPU of all threads."""
        tasks = f"/proc/{self.process.pid}/task"
        total = 0
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        return total / 1e9

    def memory(self):
        """MiB that belong to the process alone."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            line = next(line for line in file if line.startswith("RssAnon:"))
        return int(line.split()[1]) / 1024


class Client:
    """One more connection to a daemon."""

    def __init__(self, daemon, context):
        self.headers = daemon.headers
        self.connection = http.client.HTTPSConnection("127.0.0.1", daemon.connection.port, context=context)

    call, write, read = Daemon.call, Daemon.write, Daemon.read


def together(daemon, work):
    """Has each connection do its part of some work, and returns the CPU that the daemon used for it."""
    before = daemon.cpu()
    context = ssl.create_default_context(cafile=os.path.join(daemon.data, "pki/ca.crt"))
    # Each connection has a thread; a fault in one is the fault of all.
    faults = []

    def one(number):
        try:
            client = Client(daemon, context)
            for at in range(number, work[1], CONNECTIONS):
                work[0](client, at)
            client.connection.close()
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return daemon.cpu() - before


def measure(binary, pause):
    """One round of a program."""
    with tempfile.TemporaryDirectory(prefix="taffrail-packages-") as folder:
        data = f"{folder}/data"
        # The first start makes keys and certificates.
        Measured(binary, data).stop()
        daemon = Measured(binary, data)
        try:
            figures = {"start ms": daemon.started * 1e3, "start CPU ms": daemon.cpu() * 1e3, "ready MiB": daemon.memory()}
            creates = (lambda client, at: client.write("POST", PATH, config_map(f"o{at}", at)), CREATES)
            figures["create CPU us"] = together(daemon, creates) / CREATES * 1e6
            figures["list CPU ms"] = together(daemon, (lambda client, at: client.read(PATH), LISTS)) / LISTS * 1e3
            figures["loaded MiB"] = daemon.memory()
            time.sleep(pause)
            figures["later MiB"] = daemon.memory()
            daemon.stop()
        finally:
            daemon.process.kill()
            daemon.process.wait()
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="+", metavar="BINARY")
    parser.add_argument("--rounds", type=int, default=5, help="5 by default")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds={options.rounds}: it must be at least 1")
    for binary in options.binaries:
        if not os.access(binary, os.X_OK) or os.path.isdir(binary):
            parser.error(f"{binary}: no program")
    rounds = {binary: [] for binary in options.binaries}
    for number in range(options.rounds):
        for binary in options.binaries:
            rounds[binary].append(measure(os.path.abspath(binary), PAUSE))
            print(f"round {number + 1}: {binary}", file=sys.stderr)
    names = list(rounds[options.binaries[0]][0])
    print("| program | MiB | " + " | ".join(names) + " |")
    print("|---|" + "---|" * (len(names) + 1))
    for binary, figures in rounds.items():
        medians = [statistics.median(round_[name] for round_ in figures) for name in names]
        size = os.path.getsize(binary) / 2**20
        print(f"| {os.path.basename(binary)} | {size:.2f} | " + " | ".join(f"{value:.1f}" for value in medians) + " |")


if __name__ == "__main__":
    main()
