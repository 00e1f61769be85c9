"""What the user can mend, and what is said about a process that ended."""

LAST_LINES = 8


class CaptureError(Exception):
    """The message says what was expected, what was found and what to do."""


def last_words(returncode, log_path):
    """About a process that ended without a result: its code and the last lines that it printed."""
    with open(log_path, encoding="utf-8", errors="replace") as log:
        lines = [line.rstrip() for line in log if line.strip()]
    last = "\n  ".join(lines[-LAST_LINES:])
    return f"the process ended with code {returncode}; it last said:\n  {last}"
