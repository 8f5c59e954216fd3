"""Arguments that are names or data."""

from typing import Any, List, Sequence, Union

Name = Union[str, bytes]


def text(value: Any, what: str) -> str:
    """Returns a text that was given as one, or as UTF-8."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8")
    raise TypeError("{0} must be a str, not {1}".format(what, type(value).__name__))


def data(value: Any, what: str) -> bytes:
    """Returns data; a text stands for its UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError("{0} must be bytes, not {1}".format(what, type(value).__name__))


def names(values: Sequence[Name], what: str) -> List[Name]:
    """Returns a list of names."""
    for value in values:
        if not isinstance(value, (str, bytes)):
            raise TypeError("{0} must be str or bytes, not {1}".format(what, type(value).__name__))
    return list(values)


def number(value: Any, what: str) -> int:
    """Returns a number."""
    if isinstance(value, int):
        return value
    raise TypeError("{0} must be an int, not {1}".format(what, type(value).__name__))
