"""Operations in the background."""

import threading
from typing import TYPE_CHECKING, Any, Callable, Optional

from loligo.rados.errors import Error, ExtendMismatch

if TYPE_CHECKING:
    from loligo.rados.ioctx import Ioctx


class _State:
    """What the library tells, apart from the completion: nothing refers to a completion that was told of."""

    __slots__ = ("complete", "told", "completion", "value", "error")

    def __init__(self, completion: "Completion") -> None:
        self.complete = threading.Event()
        self.told = threading.Event()
        self.completion: Optional[Completion] = completion
        self.value: Any = None
        self.error: Optional[BaseException] = None

    def done(self, value: Any, error: Optional[BaseException]) -> None:
        completion, self.completion = self.completion, None
        self.value, self.error = value, error
        self.complete.set()
        try:
            if completion is not None:
                completion._tell()
        finally:
            del completion
            self.told.set()


class Completion:
    """An operation in the background."""

    def __init__(
        self,
        ioctx: "Ioctx",
        oncomplete: Optional[Callable[..., Any]] = None,
        onsafe: Optional[Callable[..., Any]] = None,
        give: Optional[Callable[[Any, Optional[BaseException]], tuple]] = None,
        count: Optional[Callable[[Any], int]] = None,
    ) -> None:
        self.ioctx = ioctx
        self.oncomplete = oncomplete
        self.onsafe = onsafe
        self._give = give
        self._count = count
        self._state = _State(self)

    def _done(self) -> Callable[[Any, Optional[BaseException]], None]:
        """Returns what the library calls at the end."""
        return self._state.done

    def _tell(self) -> None:
        self.ioctx._writes.discard(self._state)
        arguments = self._give(self._state.value, self._state.error) if self._give else ()
        try:
            if self.oncomplete is not None:
                self.oncomplete(self, *arguments)
        finally:
            if self.onsafe is not None:
                self.onsafe(self, *arguments)

    def is_complete(self) -> bool:
        """Whether the operation has ended."""
        return self._state.complete.is_set()

    def is_safe(self) -> bool:
        """Whether the operation has ended: an acknowledged write is safe."""
        return self._state.complete.is_set()

    def wait_for_complete(self) -> None:
        """Waits until the operation has ended."""
        self._state.complete.wait()

    def wait_for_safe(self) -> None:
        """Waits until the operation has ended."""
        self._state.complete.wait()

    def wait_for_complete_and_cb(self) -> None:
        """Waits until the operation has ended and the callbacks have returned."""
        self._state.told.wait()

    def wait_for_safe_and_cb(self) -> None:
        """Waits until the operation has ended and the callbacks have returned."""
        self._state.told.wait()

    def get_return_value(self) -> int:
        """Returns 0 or more, or a negative errno."""
        error = self._state.error
        if error is None:
            return self._count(self._state.value) if self._count else 0
        if isinstance(error, (Error, ExtendMismatch)) and error.errno is not None:
            return -error.errno
        raise error
