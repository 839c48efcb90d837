"""Stands for a Python interpreter: asks ``sitecustomize.py`` for a child, or becomes the interpreter itself.

``python -IS client.py SOCKET ARGUMENTS...``; quick to start, so the standard library's smallest modules only.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main() -> None:
    path, *arguments = sys.argv[1:]
    environment = dict(os.environ)
    if not os.path.exists(path):
        os.execv(sys.executable, [sys.executable, *arguments])
    with socket.socket(socket.AF_UNIX) as connection:
        numbers = [number for number in map(int, os.listdir("/proc/self/fd")) if number != connection.fileno()]
        numbers = [number for number in numbers if _is_open(number)]
        if not {0, 1, 2} <= set(numbers):
            os.execv(sys.executable, [sys.executable, *arguments])
        content = json.dumps(
            {
                "arguments": arguments,
                "environment": environment,
                "directory": os.getcwd(),
                "group": os.getpgid(0),
                "session": os.getsid(0),
                "umask": _umask(),
                "descriptors": numbers,
            }
        ).encode()
        # The child is of our group and gets the same signals; its end is ours.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        try:
            connection.connect(path)
        except ConnectionError:  # the server is gone
            _be_the_interpreter(arguments)
        connection.sendall(len(content).to_bytes(4, "big"))
        socket.send_fds(connection, [content[:1]], numbers)
        connection.sendall(content[1:])
        answer = connection.recv(32).decode()
    if answer == "no":
        _be_the_interpreter(arguments)
    status = int(answer)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _be_the_interpreter(arguments: list[str]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, *arguments])


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


if __name__ == "__main__":
    main()
