"""Lines waiting for a host that may not be reading."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_QUEUE = 8


class Outbox:
    """Holds one frame, the newest, and a few replies; a line once begun is finished.

    A frame carries sums since power on, so a newer one says all an older one
    does and nothing is lost by dropping the older.
    """

    def __init__(self) -> None:
        self._begun = b""
        self._replies: list[bytes] = []
        self._frame = b""

    def reply(self, line: bytes) -> None:
        """Queue a line; when the queue is full its oldest goes."""
        self._replies.append(line)
        if len(self._replies) > LONGEST_QUEUE:
            self._replies.pop(0)

    def frame(self, line: bytes) -> None:
        """Queue a frame in place of the one still waiting, if there is one."""
        self._frame = line

    def frame_waits(self) -> bool:
        """Whether not one byte of the last frame has left."""
        return bool(self._frame)

    def empty(self) -> bool:
        """Whether there is nothing to send."""
        return not (self._begun or self._replies or self._frame)

    def pump(self, write: "Callable[[bytes], int]") -> None:
        """Give `write` what it takes without waiting; it says how many bytes that was."""
        while not self.empty():
            line = self._begun or (self._replies[0] if self._replies else self._frame)
            taken = write(line)
            if not taken:
                return
            if not self._begun:
                if self._replies:
                    self._replies.pop(0)
                else:
                    self._frame = b""
            self._begun = line[taken:]
