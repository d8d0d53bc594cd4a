"""The first process of a separate host: own network, process numbers, host name, machine id and boot id.

    python host_process.py NAME SOCKET MACHINE_ID BOOT_ID COMMAND...

It runs inside new namespaces. It listens on two ports of its own loopback device, hands both listeners to the test over
SOCKET, and becomes COMMAND with the ports in its environment. The test owns the other end of every connection, and so
decides what reaches this host.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys


def main(name: str, path: str, machine_id: str, boot_id: str, *command: str) -> None:
    socket.sethostname(name)
    mounts = ((machine_id, "/etc/machine-id"), (boot_id, "/proc/sys/kernel/random/boot_id"))
    for source, target in mounts:
        subprocess.run(["mount", "--bind", source, target], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(2)]
    with socket.socket(socket.AF_UNIX) as test:
        test.connect(path)
        socket.send_fds(test, [b"ports"], [one.fileno() for one in listeners])
        test.recv(1)  # the test has them
    store, sink = (one.getsockname()[1] for one in listeners)
    words = [word.replace("STORE_PORT", str(store)) for word in command]
    environment = os.environ | {"PERDURE_SINK": os.environ["PERDURE_SINK"].replace("SINK_PORT", str(sink))}
    for one in listeners:
        one.close()
    os.execve(words[0], words, environment)


if __name__ == "__main__":
    main(*sys.argv[1:])
