# SPDX-License-Identifier: Apache-2.0
"""JAX: functions as models of Kerf, and plans of Kerf as shardings of JAX (docs/jax.md)."""
from .apply import Applied, apply
from .capture import capture
from .placed import mesh, shardings

__all__ = ["Applied", "apply", "capture", "mesh", "shardings"]
