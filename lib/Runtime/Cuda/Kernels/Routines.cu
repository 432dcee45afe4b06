// SPDX-License-Identifier: Apache-2.0
// The functions that fused kernels of packages call for elements, as LLVM bitcode that lib/Codegen links to each of its
// modules. Their names are those of the CPU's routines (package::NativeCode::routines). 16-bit numbers are computed as
// f32.
#include "ElementCode.h"
#include "FusedReduceCode.h"

namespace kerf::runtime::cuda {

#define KERF_ROUTINE __attribute__((device))
#define KERF_UNARY_OF(X, function, name, op)                                                                           \
  KERF_ROUTINE X function(X x) __asm__(name);                                                                          \
  KERF_ROUTINE X function(X x) { return ofFloat(op, x); }
#define KERF_UNARY(function, name, op)                                                                                 \
  KERF_UNARY_OF(float, function, name ".f32", op) KERF_UNARY_OF(double, function, name ".f64", op)
#define KERF_BINARY_OF(X, function, name, op)                                                                          \
  KERF_ROUTINE X function(X x, X y) __asm__(name);                                                                     \
  KERF_ROUTINE X function(X x, X y) { return ofFloats(op, x, y); }
#define KERF_BINARY(function, name, op)                                                                                \
  KERF_BINARY_OF(float, function, name ".f32", op) KERF_BINARY_OF(double, function, name ".f64", op)

KERF_UNARY(exponential, "exponential", UnaryOp::Exponential)
KERF_UNARY(logarithm, "log", UnaryOp::Log)
KERF_UNARY(hyperbolicTangent, "tanh", UnaryOp::Tanh)
KERF_UNARY(logistic, "logistic", UnaryOp::Logistic)
KERF_UNARY(errorFunction, "erf", UnaryOp::Erf)
KERF_UNARY(sine, "sine", UnaryOp::Sine)
KERF_UNARY(cosine, "cosine", UnaryOp::Cosine)
KERF_UNARY(arcTangent, "atan", UnaryOp::Atan)
KERF_UNARY(gelu, "gelu", UnaryOp::Gelu)
KERF_UNARY(geluTanh, "gelu.tanh", UnaryOp::GeluByTanh)
KERF_BINARY(power, "power", BinaryOp::Power)
KERF_BINARY(geluBackward, "gelu_backward", BinaryOp::GeluSlope)
KERF_BINARY(geluBackwardTanh, "gelu_backward.tanh", BinaryOp::GeluSlopeByTanh)

} // namespace kerf::runtime::cuda
