"""What goes on, on stderr: one line that is rewritten on a terminal, elsewhere a line now and then."""

import time

FIRST_AFTER = 1.0
AGAIN_AFTER = 60.0
"""Seconds in one stage after which a line is due where stderr is no terminal."""


class Progress:
    def __init__(self, stream, clock=time.monotonic):
        self._stream = stream
        self._clock = clock
        self._text = None
        self._since = 0.0
        self._told = 0.0
        self._shown = False

    def stage(self, text):
        self._text, self._since, self._told = text, self._clock(), 0.0

    def tick(self):
        """To be called now and then."""
        if self._text is None:
            return
        seconds = self._clock() - self._since
        if self._stream.isatty():
            if seconds >= FIRST_AFTER:
                self._stream.write(f"\r\033[K{self._text}, {seconds:.0f} s")
                self._stream.flush()
                self._shown = True
        elif seconds - self._told >= AGAIN_AFTER:
            self._told = seconds
            self._stream.write(f"{self._text}, {seconds:.0f} s\n")
            self._stream.flush()

    def clear(self):
        """Makes way for other lines."""
        if self._shown:
            self._stream.write("\r\033[K")
            self._stream.flush()
            self._shown = False
