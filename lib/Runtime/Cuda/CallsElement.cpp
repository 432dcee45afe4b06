// SPDX-License-Identifier: Apache-2.0
// Calls of the kernels of single elements (Kernels/Elementwise.cu).
#include "CallsRows.h"

#include <algorithm>
#include <iterator>

namespace kerf::runtime::cuda {

namespace {
constexpr std::string_view kUnaryNames[] = {"negate",
                                            "abs",
                                            "sign",
                                            "not",
                                            "exponential",
                                            "log",
                                            "sqrt",
                                            "rsqrt",
                                            "tanh",
                                            "logistic",
                                            "erf",
                                            "sine",
                                            "cosine",
                                            "atan",
                                            "floor",
                                            "ceil",
                                            "round_nearest_even",
                                            "stop_gradient"};
constexpr std::string_view kBinaryNames[] = {"add",     "subtract", "multiply", "divide", "maximum",
                                             "minimum", "power",    "and",      "or"};
constexpr std::string_view kOrderNames[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};

template <typename E, size_t n> E numberOf(const std::string_view (&names)[n], std::string_view name) {
  return E(std::find(std::begin(names), std::end(names), name) - std::begin(names));
}

bool isFloat(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

/// Returns a call of a kernel on `n` elements, of which each thread takes those that have 16 bytes of the type
/// `widest`; no call for no elements.
template <typename P> Calls callsOn(int64_t n, DType widest, DType type, std::string_view entry, const P &parameters) {
  int64_t width = kPackBytes / bytesOf(widest);
  Calls calls;
  addElementCall(calls, "Elementwise", type, entry, (n + width - 1) / width, parameters);
  return calls;
}
DType wider(DType a, DType b) { return bytesOf(a) > bytesOf(b) ? a : b; }
} // namespace

Result<Calls> callUnary(const CallRequest &r) {
  const std::string &name = r.request.instruction.op;
  UnaryOp op = name != "gelu"          ? numberOf<UnaryOp>(kUnaryNames, name)
               : r.flag("approximate") ? UnaryOp::GeluByTanh
                                       : UnaryOp::Gelu;
  int64_t n = r.result().elements();
  return callsOn(n, r.result().dtype, r.result().dtype, "unary",
                 UnaryParameters{op, r.operand(0).data, r.result().data, n});
}

Result<Calls> callBinary(const CallRequest &r) {
  const std::string &name = r.request.instruction.op;
  BinaryOp op = name != "gelu_backward" ? numberOf<BinaryOp>(kBinaryNames, name)
                : r.flag("approximate") ? BinaryOp::GeluSlopeByTanh
                                        : BinaryOp::GeluSlope;
  int64_t n = r.result().elements();
  return callsOn(n, r.result().dtype, r.result().dtype, "binary",
                 BinaryParameters{op, r.operand(0).data, r.operand(1).data, r.result().data, n});
}

Result<Calls> callCompare(const CallRequest &r) {
  Order order = numberOf<Order>(kOrderNames, r.attrs().at("direction").get<std::string>());
  int64_t n = r.result().elements();
  return callsOn(
      n, r.operand(0).dtype, r.operand(0).dtype, "compare",
      CompareParameters{order, r.operand(0).data, r.operand(1).data, static_cast<uint8_t *>(r.result().data), n});
}

Result<Calls> callSelect(const CallRequest &r) {
  int64_t n = r.result().elements();
  return callsOn(n, r.result().dtype, r.result().dtype, "choose",
                 SelectParameters{static_cast<const uint8_t *>(r.operand(0).data), r.operand(1).data, r.operand(2).data,
                                  r.result().data, n});
}

Result<Calls> callConvert(const CallRequest &r) {
  int64_t n = r.result().elements();
  return callsOn(n, wider(r.operand(0).dtype, r.result().dtype), r.operand(0).dtype, "convert",
                 ConvertParameters{int32_t(r.result().dtype), r.operand(0).data, r.result().data, n});
}

Result<Calls> callAccumulate(const CallRequest &r) {
  if (r.operands() == 1)
    return callConvert(r); // the first summand only starts the sum
  int64_t n = r.result().elements();
  if (!isFloat(r.result().dtype)) // integers are added in their own type
    return callsOn(n, r.result().dtype, r.result().dtype, "binary",
                   BinaryParameters{BinaryOp::Add, r.operand(0).data, r.operand(1).data, r.result().data, n});
  return callsOn(
      n, wider(r.operand(1).dtype, r.result().dtype), r.result().dtype, "accumulate",
      AccumulateParameters{int32_t(r.operand(1).dtype), r.operand(0).data, r.operand(1).data, r.result().data, n});
}

Result<Calls> callReducePrecision(const CallRequest &r) {
  int64_t n = r.result().elements(), bits = r.integer("mantissa_bits"), exponent = r.integer("min_exponent");
  DType dtype = r.result().dtype;
  const void *x = r.operand(0).data;
  void *y = r.result().data;
  if (dtype == DType::F64)
    return callsOn(n, dtype, dtype, "reducePrecision",
                   ReducePrecisionParameters<double>{x, y, n, Precision<double>(bits, exponent)});
  return callsOn(n, dtype, dtype, "reducePrecision",
                 ReducePrecisionParameters<float>{x, y, n, Precision<float>(bits, exponent)});
}

Result<Calls> callIsNan(const CallRequest &r) {
  int64_t n = r.result().elements();
  return callsOn(n, r.operand(0).dtype, r.operand(0).dtype, "isNan",
                 IsNanParameters{r.operand(0).data, static_cast<uint8_t *>(r.result().data), n});
}

} // namespace kerf::runtime::cuda
