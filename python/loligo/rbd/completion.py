"""Operations on images in the background."""

import threading
from typing import Any, Callable, Optional

from loligo.rbd.errors import OSError, not_here


class _State:
    """What the library tells, apart from the completion: nothing refers to a completion that was told of."""

    __slots__ = ("told", "completion", "value", "error", "raised")

    def __init__(self, completion: "Completion") -> None:
        self.told = threading.Event()
        self.completion: Optional[Completion] = completion
        self.value: Any = None
        self.error: Optional[BaseException] = None
        self.raised: Optional[BaseException] = None

    def done(self, value: Any, error: Optional[BaseException]) -> None:
        completion, self.completion = self.completion, None
        self.value, self.error = value, error
        try:
            if completion is not None:
                completion._tell()
        except BaseException as raised:
            # Raised where the program waits.
            self.raised = raised
        finally:
            del completion
            self.told.set()


class Completion:
    """An operation in the background."""

    def __init__(
        self,
        oncomplete: Optional[Callable[..., Any]],
        give: Optional[Callable[[Any, Optional[BaseException]], tuple]] = None,
        count: Optional[Callable[[Any], int]] = None,
    ) -> None:
        self.oncomplete = oncomplete
        self._give = give
        self._count = count
        self._state = _State(self)

    def _done(self) -> Callable[[Any, Optional[BaseException]], None]:
        """Returns what the library calls at the end."""
        return self._state.done

    def _tell(self) -> None:
        arguments = self._give(self._state.value, self._state.error) if self._give else ()
        if self.oncomplete is not None:
            self.oncomplete(self, *arguments)

    def is_complete(self) -> bool:
        """Whether the operation has ended."""
        state = self._state
        return state.told.is_set() or state.completion is None

    def wait_for_complete_and_cb(self) -> None:
        """Waits until the operation has ended and the callback has returned. What the callback raised is
        raised here."""
        self._state.told.wait()
        raised, self._state.raised = self._state.raised, None
        if raised is not None:
            raise raised

    def get_return_value(self) -> int:
        """Returns 0 or more, or a negative errno."""
        error = self._state.error
        if error is None:
            return self._count(self._state.value) if self._count else 0
        if isinstance(error, OSError) and error.errno is not None:
            return -error.errno
        raise error


def absent(what: str) -> Callable[..., Any]:
    """Makes a method that this library does not have: it says so."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise not_here(what)

    method.__doc__ = "Not here: raises ``FunctionNotSupported``."
    return method
