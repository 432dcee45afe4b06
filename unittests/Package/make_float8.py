#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes float8.json: the values of all codes of the 8-bit formats, and codes of rounded floats, as ml_dtypes 0.5 has them.

Run: python3 make_float8.py > float8.json (needs ml_dtypes and numpy)
"""
import json

import ml_dtypes
import numpy

random = numpy.random.default_rng(8)
formats = {}
for name, dtype in (("f8e4m3fn", ml_dtypes.float8_e4m3fn), ("f8e5m2", ml_dtypes.float8_e5m2)):
    values = numpy.arange(256, dtype=numpy.uint8).view(dtype).astype(numpy.float32)
    finite = numpy.sort(values[numpy.isfinite(values) & (values >= 0)])
    middles = (finite[:-1] + finite[1:]) / 2  # every tie
    largest = float(ml_dtypes.finfo(dtype).max)
    special = [0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, largest * 1.03, largest * 1.5, largest * 1e6, 1e-30, 1e-45]
    inputs = numpy.concatenate([middles, -middles[::5], numpy.nextafter(middles, numpy.float32(0))[::3],
                                numpy.nextafter(middles, numpy.float32(numpy.inf))[::3],
                                random.normal(size=60) * 2.0 ** random.integers(-20, 18, 60), special]).astype(numpy.float32)
    codes = numpy.clip(inputs, -largest, largest).astype(dtype).view(numpy.uint8)  # ml_dtypes does not saturate
    bits = inputs.view(numpy.uint32)
    formats[name] = {"values": values.view(numpy.uint32).tolist(),
                     "rounded": [[int(b), int(c)] for b, c in zip(bits, codes)]}
print(json.dumps(formats, separators=(",", ":")))
