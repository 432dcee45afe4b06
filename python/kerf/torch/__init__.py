# SPDX-License-Identifier: Apache-2.0
"""Kerf for PyTorch. Each call imports PyTorch when it is used, so that `import kerf` does not need PyTorch."""
from __future__ import annotations

from .parallelize import Parallel, parallelize
from .placement import SUPPORT, Placement, Row, device_mesh, placements

__all__ = ["SUPPORT", "Parallel", "Placement", "Row", "device_mesh", "parallelize", "placements"]
