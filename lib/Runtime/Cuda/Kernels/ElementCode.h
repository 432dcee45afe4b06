// SPDX-License-Identifier: Apache-2.0
// Functions of floating elements. The kernels of Elementwise.cu and the fused kernels of packages (Routines.cu) compute
// with them, so that both give the same bits.
#pragma once

#include "ExpCode.h"

namespace kerf::runtime::cuda {

template <typename X> KERF_DEVICE X geluByErf(X x) { return x * normalAt(x).below; }
constexpr double kTanhInner = 0.7978845608028654,
                 kTanhCubic = 0.044715; // sqrt(2 / pi), and Hendrycks and Gimpel's factor
template <typename X> KERF_DEVICE X geluByTanh(X x) {
  return X(0.5) * x * (X(1) + fastTanh(X(X(kTanhInner) * (x + X(kTanhCubic) * x * x * x))));
}
template <typename X> KERF_DEVICE X geluSlopeByErf(X x) {
  Normal<X> normal = normalAt(x);
  return normal.below + (normal.density == 0 ? X(0) : x * normal.density);
}
template <typename X> KERF_DEVICE X geluSlopeByTanh(X x) {
  X t = fastTanh(X(X(kTanhInner) * (x + X(kTanhCubic) * x * x * x)));
  X inner = X(kTanhInner) * (X(1) + X(3 * kTanhCubic) * x * x), slope = X(1) - t * t;
  return X(0.5) * (X(1) + t) + (slope == 0 ? X(0) : X(0.5) * x * slope * inner);
}

template <typename X> KERF_DEVICE X ofFloat(UnaryOp op, X x) {
  switch (op) {
  case UnaryOp::Negate:
    return -x;
  case UnaryOp::Abs:
    return __builtin_elementwise_abs(x);
  case UnaryOp::Sign:
    return x > 0 ? X(1) : x < 0 ? X(-1) : x;
  case UnaryOp::Exponential:
    return fastExp(x);
  case UnaryOp::Log:
    return logOf(x);
  case UnaryOp::Sqrt:
    return __builtin_elementwise_sqrt(x);
  case UnaryOp::Rsqrt:
    return X(1) / __builtin_elementwise_sqrt(x);
  case UnaryOp::Tanh:
    return fastTanh(x);
  case UnaryOp::Logistic:
    return logisticOf(x);
  case UnaryOp::Erf:
    return fastErf(x);
  case UnaryOp::Sine:
    return sinOf(x);
  case UnaryOp::Cosine:
    return cosOf(x);
  case UnaryOp::Atan:
    return atanOf(x);
  case UnaryOp::Floor:
    return __builtin_elementwise_floor(x);
  case UnaryOp::Ceil:
    return __builtin_elementwise_ceil(x);
  case UnaryOp::RoundNearestEven:
    return __builtin_elementwise_roundeven(x);
  case UnaryOp::Gelu:
    return geluByErf(x);
  case UnaryOp::GeluByTanh:
    return geluByTanh(x);
  default:
    return x;
  }
}

template <typename X> KERF_DEVICE X ofFloats(BinaryOp op, X x, X y) {
  switch (op) {
  case BinaryOp::Add:
    return x + y;
  case BinaryOp::Subtract:
    return x - y;
  case BinaryOp::Multiply:
    return x * y;
  case BinaryOp::Divide:
    return x / y;
  case BinaryOp::Maximum:
    return larger(x, y);
  case BinaryOp::Minimum:
    return smaller(x, y);
  case BinaryOp::Power:
    return powOf(x, y);
  case BinaryOp::GeluSlope:
    return y * geluSlopeByErf(x);
  case BinaryOp::GeluSlopeByTanh:
    return y * geluSlopeByTanh(x);
  default:
    return x;
  }
}

} // namespace kerf::runtime::cuda
