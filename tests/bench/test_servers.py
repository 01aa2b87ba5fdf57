#!/usr/bin/env python3
"""Measures servers for tests as processes: their start, their memory, and their stop.

    tests/bench/test_servers.py BINARY [--servers 50] [--watches 1000]

It starts servers one after the other, and prints the time until one is ready. It starts as many at
once, and prints the time until all are ready and the memory that only they have (private), and with
their part of what they share (Pss). Then it opens watches on one server, each over a connection of
its own, and prints the time from SIGTERM to the end of the process. The same with SIGKILL shows how
much of that the kernel takes to close the connections. Needs Python 3.9 and Linux.
"""

import argparse
import asyncio
import json
import os
import re
import select
import signal
import ssl
import statistics
import subprocess
import time

WATCH = (
    "GET /api/v1/namespaces/default/configmaps?watch=true HTTP/1.1\r\n"
    "Host: localhost\r\nAuthorization: Bearer {}\r\n\r\n"
)


def start(binary):
    """Starts a server, whose ready line has not been read yet."""
    return subprocess.Popen([binary, "test"], stdout=subprocess.PIPE)


def ready(process):
    """Waits for the ready line."""
    return json.loads(process.stdout.readline())


def memory(pid, name):
    """Returns a sum over all mappings of a process, in MiB."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return int(re.search(rf"{name}:\s+(\d+)", file.read()).group(1)) / 1024


def one(binary):
    """Prints the time until a server is ready that is started alone."""
    times = []
    for _ in range(21):
        began = time.monotonic()
        server = start(binary)
        ready(server)
        times.append(1000 * (time.monotonic() - began))
        server.terminate()
        server.wait()
    print(f"one server is ready after {statistics.median(times):.1f} ms")


def many(binary, count):
    """Prints start and memory of servers that are started at once."""
    began = time.monotonic()
    servers = [start(binary) for _ in range(count)]
    pids = [ready(server)["pid"] for server in servers]
    took = time.monotonic() - began
    time.sleep(2)
    private = [memory(pid, "Private_Dirty") for pid in pids]
    pss = sum(memory(pid, "Pss") for pid in pids)
    for server in servers:
        server.terminate()
    for server in servers:
        server.wait()
    print(f"{count} servers at once are ready after {1000 * took:.0f} ms")
    print(f"private memory of one: {statistics.median(private):.1f} MiB; all, Pss: {pss:.0f} MiB")


async def watching(server, watches):
    """Opens watches and returns their connections."""
    context = ssl.create_default_context(cadata=server["ca"])
    port = int(server["url"].rsplit(":", 1)[1])

    async def watch():
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(WATCH.format(server["token"]).encode())
        assert b"200" in await reader.readline()
        return reader, writer

    open_ones = []
    for first in range(0, watches, 50):
        some = (watch() for _ in range(first, min(first + 50, watches)))
        open_ones += await asyncio.gather(*some)
    await asyncio.sleep(1)
    return open_ones


def stop(binary, watches, number):
    """Returns the milliseconds from a signal to the end of a server with these watches."""
    process = start(binary)
    server = ready(process)

    async def measured():
        open_ones = await watching(server, watches)
        ended = os.pidfd_open(process.pid)
        began = time.monotonic()
        os.kill(process.pid, number)
        select.select([ended], [], [], 60)
        took = 1000 * (time.monotonic() - began)
        os.close(ended)
        process.wait()
        for _, writer in open_ones:
            writer.transport.abort()
        return took

    return asyncio.run(measured())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--servers", type=int, default=50)
    parser.add_argument("--watches", type=int, default=1000)
    asked = parser.parse_args()
    one(asked.binary)
    many(asked.binary, asked.servers)
    for watches in (0, asked.watches):
        for number in (signal.SIGTERM, signal.SIGKILL):
            times = [stop(asked.binary, watches, number) for _ in range(5)]
            print(f"{watches} watches, {number.name}: {statistics.median(times):.1f} ms")


if __name__ == "__main__":
    main()
