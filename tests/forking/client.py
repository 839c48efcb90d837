"""Stands for a Python interpreter: asks ``sitecustomize.py`` for a child, or becomes the interpreter itself.

``python -IS client.py SOCKETS ARGUMENTS...``; quick to start, so the standard library's smallest modules only.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    paths, *arguments = sys.argv[1:]
    for path in paths.split(os.pathsep):
        if os.path.exists(path) and (answer := _asked(path, arguments)) != "no":
            _end(int(answer))
    _be_the_interpreter(arguments)


def _asked(path: str, arguments: list[str]) -> str:
    """The status of the child that a server forks; ``no`` if it doesn't."""
    with socket.socket(socket.AF_UNIX) as connection:
        numbers = [number for number in map(int, os.listdir("/proc/self/fd")) if number != connection.fileno()]
        numbers = [number for number in numbers if _is_open(number)]
        if not {0, 1, 2} <= set(numbers):
            return "no"
        content = json.dumps(
            {
                "arguments": arguments,
                "environment": dict(os.environ),
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
            return "no"
        connection.sendall(len(content).to_bytes(4, "big"))
        socket.send_fds(connection, [content[:1]], numbers)
        connection.sendall(content[1:])
        return connection.recv(32).decode()


def _end(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _be_the_interpreter(arguments: list[str]) -> NoReturn:
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
