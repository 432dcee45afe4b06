# SPDX-License-Identifier: Apache-2.0
"""Starts JAX with eight devices of the CPU. Import this module before JAX."""
import os
import sys

DEVICES = 8

if "jax" not in sys.modules:
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + f" --xla_force_host_platform_device_count={DEVICES}"


def missing():
    """Returns why tests on eight devices cannot run, or an empty text."""
    try:
        import jax
    except ImportError as error:
        return f"JAX is not installed: {error}"
    return "" if len(jax.devices()) >= DEVICES else f"JAX was started with {len(jax.devices())} devices, fewer than {DEVICES}"
