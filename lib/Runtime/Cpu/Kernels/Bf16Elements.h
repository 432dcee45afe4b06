// SPDX-License-Identifier: Apache-2.0
// Elements of kernels that read and write bf16 numbers themselves, and compute in float32. Such a kernel is a template
// of the type of an element: float, double or bf16, whose bits are a uint16_t.
#pragma once

#include "Common.h"
#include "Simd.h"
#include "kerf/Package/Half.h"

namespace kerf::runtime::kernels {

/// The type in which kernels for elements of the type E compute.
template <typename E> using ComputeType = std::conditional_t<isFloat<E>, E, float>;
/// Returns the type in which kernels for elements of the type `dtype` compute.
inline DType computeType(DType dtype) { return dtype == DType::BF16 ? DType::F32 : dtype; }

/// Returns the value of an element.
template <typename E> [[gnu::always_inline]] inline ComputeType<E> valueOf(E element) {
  if constexpr (isFloat<E>)
    return element;
  else
    return floatFromBf16(element);
}

/// Returns the element of the type E that is nearest to a value.
template <typename E> [[gnu::always_inline]] inline E elementOf(ComputeType<E> value) {
  if constexpr (isFloat<E>)
    return value;
  else
    return bf16FromFloat(value);
}

/// Rounds numbers to bf16.
inline void roundAll(const float *from, uint16_t *to, int64_t n) {
  dispatch(
      [](auto, const float *from, uint16_t *to, int64_t n) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i)
          to[i] = bf16FromFloat(from[i]);
      },
      from, to, n);
}

/// Calls f(Type<E>()) with the C++ type E of an element, and returns f's result. Fails for f16 and types without
/// fractions.
template <typename F> Result<PlannedKernel> withElementOfFloats(const BindRequest &request, DType dtype, F &&f) {
  return dtype == DType::BF16 ? f(Type<uint16_t>{}) : withFloatType(request, dtype, f);
}

} // namespace kerf::runtime::kernels
