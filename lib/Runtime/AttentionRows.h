// SPDX-License-Identifier: Apache-2.0
// Attention on parts of wider rows. A product often gives queries, keys and values side by side in each row. Programs
// copy them out of the rows before attention, and copy their gradients together afterwards:
//   1: q = slice w    2: k = slice w    3: v = slice w    4: o = attention q, k, v
//   5: dq, dk, dv = attention_backward q, k, v, ...       6: dw = concatenate dq, dk, dv
// On a device that takes parts of rows (Device::rowPartAlignment), the instructions become
//   4: o = attention w[q], w[k], w[v]                     5: dw[q], dw[k], dw[v] = attention_backward w[q], w[k], ...
#pragma once

#include "kerf/Package/FlatProgram.h"
#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

/// Removes slices that cover a value and that only attention reads, and concatenations of attention's gradients, where
/// the device takes parts of rows. No memory is added: the value lives on instead of its slices.
void usePartsOfRows(package::FlatProgram &flat, const Device &device);

} // namespace kerf::runtime
