"""Processes that answer questions, asked in turn so that all see the same machine."""

import json
import os
import select
import subprocess
from contextlib import suppress
from time import monotonic

ONE_THREAD = {
    **{f"{pool}_NUM_THREADS": "1" for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
    "NPROC": "1",  # for jax, as the next
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


class TooLong(Exception):  # noqa: N818  (it is no error of anybody)
    """No answer within the limit; the process was ended."""


class Worker:
    """A process that reads a question and writes an answer, a line of JSON each.

    One that died, or was ended because it took too long, is started again for the next question.
    """

    def __init__(self, python, *arguments):
        self.python = python
        self._command = [str(word) for word in (python, *arguments)]
        self._process = None

    def ask(self, limit=None, **question):
        """Let something be done; returns what was found."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        with suppress(OSError):  # it died meanwhile: that there is no answer will say so
            self._process.stdin.write(f"{json.dumps(question)}\n".encode())
        line = self._answer(limit)
        if not line.endswith(b"\n"):
            code = self.stop()
            raise RuntimeError(f"{self.python} died (exit code {code}) at {question}")
        return json.loads(line)

    def _answer(self, limit):
        """One line, or what there was of it when the process ended."""
        until, line, pipe = (
            None if limit is None else monotonic() + limit,
            b"",
            self._process.stdout,
        )
        while not line.endswith(b"\n"):
            left = None if until is None else max(until - monotonic(), 0)
            if not select.select([pipe], [], [], left)[0]:
                self.stop()
                raise TooLong
            piece = os.read(pipe.fileno(), 1 << 16)
            if not piece:
                break
            line += piece
        return line

    def stop(self):
        """End the process; returns its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        with process:
            if process.poll() is None:
                process.kill()
        return process.returncode


def in_turn(contenders, budget, least=3, most=15, first=None):
    """Measurements of each contender, one after the other, until the seconds are used up.

    The first of each counts only where it took long; ``first`` are those, if they were made.
    """
    began = monotonic()
    found = {name: [first[name] if first else run()] for name, run in contenders.items()}
    seconds = sum(first.values()) if first else monotonic() - began
    if seconds > 4 * budget > 0:
        least = 2  # so slow that it does not matter what came before
    else:
        least = max(least, 7) if seconds < budget else least
        found = {name: [] for name in contenders}  # that compiled, imported, fitted
    until = monotonic() + budget
    while (done := len(next(iter(found.values())))) < least or (
        done < most and monotonic() < until
    ):
        for name, run in contenders.items():
            found[name].append(run())
    return found


def answer_all(answer, source, sink):
    """Answer the questions of a file, one after the other; an error is an answer, too."""
    for line in source:
        try:
            found = answer(**json.loads(line))
        except Exception as error:  # noqa: BLE001  (whatever a package raises is to be told)
            words = " ".join(f"{type(error).__name__}: {error}".split())
            found = {"error": words[:300]}
        print(json.dumps(found), file=sink, flush=True)
