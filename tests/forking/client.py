"""Stands for a Python interpreter: asks ``sitecustomize.py`` for a child, or becomes the
interpreter itself.

``python -IS client.py SOCKETS ARGUMENTS...``; quick to start, so nothing but modules that are built
into Python: with ``json``, ``signal`` and ``socket`` it took twice as long, and a command starts
two of it.
"""

from __future__ import annotations

import _signal
import _socket
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_SIGNALS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)


def main() -> None:
    paths, *arguments = sys.argv[1:]
    for path in paths.split(os.pathsep):
        if os.path.exists(path) and (answer := _asked(path, arguments)) != "no":
            _end(int(answer))
    _be_the_interpreter(arguments)


def _asked(path: str, arguments: list[str]) -> str:
    """The status of the child that a server forks; ``no`` if it doesn't."""
    connection = _socket.socket(_socket.AF_UNIX)
    try:
        numbers = [
            number
            for number in map(int, os.listdir("/proc/self/fd"))
            if number != connection.fileno()
        ]
        numbers = [number for number in numbers if _is_open(number)]
        if not {0, 1, 2} <= set(numbers):
            return "no"
        content = marshal.dumps(
            {
                "arguments": arguments,
                "environment": dict(os.environ),
                "directory": os.getcwd(),
                "group": os.getpgid(0),
                "session": os.getsid(0),
                "umask": _umask(),
                "descriptors": numbers,
            }
        )
        # The child is of our group and gets the same signals; its end is ours.
        for number in _SIGNALS:
            _signal.signal(number, _signal.SIG_IGN)
        try:
            connection.connect(path)
        except ConnectionError:  # the server is gone
            return "no"
        connection.sendall(len(content).to_bytes(4, "big"))
        rights = b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)
        connection.sendmsg([content[:1]], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        connection.sendall(content[1:])
        return connection.recv(32).decode()
    finally:
        connection.close()


def _end(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (_signal.SIGKILL, _signal.SIGSTOP):
            _signal.signal(number, _signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _be_the_interpreter(arguments: list[str]) -> NoReturn:
    for number in _SIGNALS:
        _signal.signal(number, _signal.SIG_DFL)
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
