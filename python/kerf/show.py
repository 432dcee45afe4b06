# SPDX-License-Identifier: Apache-2.0
"""The forms in which results are shown: pages in notebooks, data frames, plots."""
from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any


def page(text: str, height: int = 480) -> str:
    """Returns a report page for a notebook, in a frame of its own, so that styles of page and notebook stay apart."""
    return f'<iframe srcdoc="{html.escape(text)}" width="100%" height="{height}" style="border:0"></iframe>'


def preformatted(text: str) -> str:
    """Returns a text for a notebook."""
    return f"<pre>{html.escape(text)}</pre>"


def frame(rows: Sequence[dict[str, Any]]) -> Any:
    """Returns rows as a data frame of pandas."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_frame() needs pandas: pip install 'kerf-compiler[frame]'") from error
    return pandas.DataFrame(list(rows))


def axes(ax: Any) -> Any:
    """Returns `ax`, or new axes of matplotlib."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ImportError("plot() needs matplotlib: pip install 'kerf-compiler[plot]'") from error
    return pyplot.subplots()[1]


GIB = float(1 << 30)


def seconds_text(seconds: float) -> str:
    """Returns seconds with the unit that fits their size."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds:.4g} s"
