// SPDX-License-Identifier: Apache-2.0
// Matrix products of bf16 numbers by a processor's own instructions for them. Sums are float32. The instructions take
// subnormal numbers as zero.
#pragma once

#include "Gemm.h"

namespace kerf::runtime::kernels {

/// The instructions with which a processor multiplies bf16 numbers.
enum class Bf16Units {
  None,
  Dots, // AVX512_BF16: one instruction adds the products of two pairs of numbers to each of 16 sums
  Tiles // AMX, matrix units: one instruction adds the product of 16 x 32 and 32 x 16 numbers to 16 x 16 sums
};

/// Returns the fastest of these instructions that this process may use: the processor has them, the system grants their
/// registers, and KERF_ISA (Simd.h) does not ask for a narrower instruction set.
Bf16Units bf16Units();
/// Returns whether gemmOfBf16 may be called.
inline bool multipliesBf16() { return bf16Units() != Bf16Units::None; }

/// Returns the bytes of scratch memory that gemmOfBf16 needs for sizes up to m, n and k.
int64_t gemmOfBf16ScratchBytes(int64_t m, int64_t n, int64_t k);

/// Computes c = a b, or c = sum + a b where `sum` is not null, on the calling thread. a is m x k and b is k x n, of
/// bf16 numbers. C is float or uint16_t (bf16). The product and the addition to `sum` are float32, and are rounded
/// once, to the nearest bf16 number, where C is uint16_t. c and `sum` are m x n with rows `ldc` elements apart, and may
/// be the same matrix. The result is deterministic, and the bits of an element do not depend on m and n. To be called
/// only where multipliesBf16().
template <typename C>
void gemmOfBf16(int64_t m, int64_t n, int64_t k, MatrixView<uint16_t> a, MatrixView<uint16_t> b, const C *sum, C *c,
                int64_t ldc, void *scratch);

extern template void gemmOfBf16<float>(int64_t, int64_t, int64_t, MatrixView<uint16_t>, MatrixView<uint16_t>,
                                       const float *, float *, int64_t, void *);
extern template void gemmOfBf16<uint16_t>(int64_t, int64_t, int64_t, MatrixView<uint16_t>, MatrixView<uint16_t>,
                                          const uint16_t *, uint16_t *, int64_t, void *);

} // namespace kerf::runtime::kernels
