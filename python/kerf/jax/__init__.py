# SPDX-License-Identifier: Apache-2.0
"""JAX: functions as models of Kerf, and plans of Kerf as shardings of JAX (docs/jax.md)."""
from .capture import capture

__all__ = ["capture"]
