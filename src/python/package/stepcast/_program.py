"""The process that answers calls. Questions and answers are JSON, one per line."""

import atexit
import itertools
import json
import os
import pathlib
import subprocess
import threading
from typing import Any, Dict, Optional

from ._errors import Failure, InputError


def path() -> str:
    """Returns the path of the program: $STEPCAST_PROGRAM, or the program in this package."""
    given = os.environ.get("STEPCAST_PROGRAM")
    if given:
        return given
    return str(pathlib.Path(__file__).resolve().parent / "_program" / "bin" / "stepcast")


class Program:
    """A process of `stepcast serve`, started with the first question.

    A new process is started if the process has ended, after a fork, and after a change of the working
    directory, of $STEPCAST_DATA or of $STEPCAST_PROGRAM.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._started_in: Optional[tuple] = None
        atexit.register(self._end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def ask(self, question: Dict[str, Any]) -> Dict[str, Any]:
        # Not under the lock, because json.dumps may raise TypeError.
        line = json.dumps({"id": next(self._ids), **question})
        with self._lock:
            try:
                reply = self._exchange(line)
            except BaseException:
                # After Ctrl-C, for example, the unread answer would be read as the next answer.
                self._end()
                raise
        if "mistakes" in reply:
            raise InputError(reply["mistakes"])
        if "failure" in reply:
            raise Failure(reply["failure"])
        return reply["answer"]

    def _exchange(self, line: str) -> Dict[str, Any]:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            reply = process.stdout.readline()
        except BrokenPipeError:
            reply = b""
        if reply.endswith(b"\n"):
            return json.loads(reply)
        raise Failure(f"{path()} ended without an answer, with status {process.wait()}")

    def _running(self) -> "subprocess.Popen[bytes]":
        here = (os.getcwd(), os.environ.get("STEPCAST_DATA"), path())
        if self._process is not None and (self._process.poll() is not None
                                          or self._started_in != here):
            self._end()
        if self._process is None:
            try:
                # In a new session, so that Ctrl-C reaches only this process, which then ends the
                # child.
                self._process = subprocess.Popen(
                    [path(), "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    env={**os.environ, "STEPCAST_PROGRESS": "0"}, start_new_session=True)
            except OSError as error:
                raise Failure(f"cannot start {path()}: {error.strerror}") from error
            self._started_in = here
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def _forget(self) -> None:
        """Called in a forked child: the program's process belongs to the parent."""
        self._lock = threading.Lock()
        self._process = None
