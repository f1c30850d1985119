"""Sizes of memory as people write them: what `mgb run --need` reads."""

import operator
import re
from typing import SupportsIndex, Union

_FACTORS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", 1):
    _FACTORS.update({_letter: 1024**_power, f"{_letter}ib": 1024**_power, f"{_letter}b": 1000**_power})


def size(value: Union[str, SupportsIndex]) -> int:
    """Bytes: a positive number of them, or a text such as "12GiB", "512M" or "2GB".

    Raises ValueError for what is no size, not positive, or beyond 64 bits, and TypeError for other types.
    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]*)\s*", value, re.IGNORECASE | re.ASCII)
        factor = _FACTORS.get(match[2].lower()) if match else None
        if match is None or factor is None:
            raise ValueError(f"{value!r} is no size; write a number and a unit, such as '512MiB' or '12GiB'")
        number = match[1]
        amount = int(number) * factor if number.isdigit() else int(float(number) * factor)
    elif isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{value!r} is no size; give bytes as an int, or a text such as '12GiB'")
    else:
        amount = operator.index(value)
    if not 0 < amount < 2**64:
        raise ValueError(f"{value!r} is no need: it has to be between 1 byte and 2**64; leave it away where MGB is to find out")
    return amount
