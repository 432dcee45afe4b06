// SPDX-License-Identifier: Apache-2.0
// Instructions as calls of CANN. The instruction was checked by the CPU's plan function of the same op
// (checkInstruction), so these functions read attributes and shapes without further checks. An op without an operator
// of its own is composed of others.
#pragma once

#include "Operators.h"
#include <functional>
#include <memory>
#include <set>

namespace kerf::runtime::ascend {

class Context;

/// Bytes of which the address of every tensor and of every part of scratch memory is a multiple.
inline constexpr int64_t kTensorAlignment = 512;
inline int64_t alignedBytes(int64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

/// A call of an operator.
struct OperatorCall {
  const Operator *one;
  std::vector<Argument> arguments;
};
/// A copy between memory ranges that do not overlap.
struct CopyCall {
  void *to;
  const void *from;
  int64_t bytes;
  CopyKind kind = CopyKind::OnDevice;
};
/// Sets bytes of the device's memory to 0.
struct ClearCall {
  void *to;
  int64_t bytes;
};
/// A function that a thread of the host calls when the stream comes to it. It must not call AscendCL.
using HostCall = std::function<void()>;
/// One thing that an instruction enqueues.
using Call = std::variant<OperatorCall, CopyCall, ClearCall, HostCall>;

/// Indices to check when the work of a step is done. An index is right if it lies in [lowest, whole) or is `ignored`.
struct IndexCheck {
  TensorView indices; // i64 or i32
  int64_t lowest = 0, whole = 0;
  std::optional<int64_t> ignored = {};
  std::function<Error(int64_t value, int64_t where)> text = nullptr; // what the CPU's kernel says of a wrong one
};

/// An instruction as calls that run one after the other on one stream.
struct Calls {
  std::vector<Call> calls;                           // empty where the instruction has nothing to do
  int64_t scratchBytes = 0;                          // temporary memory that the calls use
  std::optional<IndexCheck> check = {};              // the indices that the instruction reads
  std::vector<std::shared_ptr<std::byte>> keep = {}; // memory that the calls use
};

/// The generations of NPUs: the first 910, which has no bf16 and no flash attention, and all later ones.
enum class Generation { First, Later };

struct Prices;

/// The NPU for which calls are built. Without the functions, memory is only being planned, and addresses are null.
struct Target {
  Generation generation = Generation::Later;
  /// Returns memory of the device that holds the given bytes.
  std::function<Result<std::shared_ptr<std::byte>>(const void *bytes, int64_t size)> constant = nullptr;
  /// Returns host memory that streams copy to and from.
  std::function<Result<std::shared_ptr<std::byte>>(int64_t size)> pinned = nullptr;
  /// Returns whether the libraries have an operator; without this function they have all.
  std::function<bool(const Operator &)> has = nullptr;
  /// The prices by which compositions are chosen; null for those of the generation.
  const Prices *prices = nullptr;
  /// Called where a composition is taken because the libraries lack an operator of a cheaper one: the op of the
  /// program, the missing operator, and those that are taken. May be empty.
  std::function<void(const std::string &op, const Operator &missing, const std::set<std::string> &taken)> onMissing =
      nullptr;
};

/// Builds the calls of an instruction. The first failure is kept, and everything after it does nothing.
class Builder : public RequestReader {
public:
  Builder(const KernelRequest &request, const Target &target) : RequestReader{request}, target(target) {}

  const Target &target;
  Calls calls;
  std::optional<Error> failure;

  View operand(size_t i) const { return viewOf(request.operands[i]); }
  View result(size_t i = 0) const { return viewOf(request.results[i]); }
  const std::string &name() const { return request.instruction.op; }
  std::string text(const char *name) const { return attrs().at(name).get<std::string>(); }

  /// Adds a call of an operator.
  template <Kind... kinds> void call(const OperatorOf<kinds...> &one, typename KindOf<kinds>::Value... arguments) {
    add(one, {argumentOf(arguments)...});
  }
  template <typename C> void add(C &&call) {
    if (!failure)
      calls.calls.emplace_back(std::forward<C>(call));
  }
  void fail(Error error) {
    if (!failure)
      failure = std::move(error);
  }

  /// Ends a composition that the instruction cannot have, so that another one is taken (Prices.h).
  void decline() { fail({}); }
  /// Returns a builder for calls that are only priced: it goes on with the scratch memory that is taken now.
  Builder trial(const Target &priced) const {
    Builder made(request, priced);
    made.taken = taken;
    made.isPriced = true;
    return made;
  }

  /// Takes scratch memory for a dense tensor.
  View temporary(DType dtype, const Shape &sizes);
  /// Returns the scratch memory that is taken now, and gives back what was taken since then.
  int64_t mark() const { return taken; }
  void release(int64_t mark) { taken = mark; }
  /// Returns a tensor of the device's memory that holds these bytes.
  View constant(DType dtype, const Shape &sizes, const void *bytes);
  /// Takes host memory that the calls use.
  void *pinned(int64_t bytes);

  // Frequent calls.
  /// Copies elements; the views have the same sizes. Converts them where the types differ.
  void copy(const View &from, const View &to);
  void cast(const View &from, const View &to) { call(op::Cast, from, to.dtype, to); }
  void fill(const View &to, double value);
  /// Returns the view itself, or a converted copy in scratch memory where it has another type.
  View as(DType dtype, const View &view);
  /// Fails if the instruction has float64 tensors: its function computes in float32.
  void refuseDoubles();
  void add(const View &x, const View &y, const View &to) { call(op::Add, x, y, one(x.dtype), to); }
  void subtract(const View &x, const View &y, const View &to) { call(op::Sub, x, y, one(x.dtype), to); }
  /// Returns 1 or another number as a scalar of the type in which an operator on `dtype` computes.
  static ScalarValue one(DType dtype) { return scalar(dtype, 1); }
  static ScalarValue scalar(DType dtype, double value);

  /// Returns the calls, or the first failure.
  Result<Calls> finish();

private:
  void add(const Operator &one, std::vector<Argument> arguments);
  static Argument argumentOf(const View &view) { return view; }
  static Argument argumentOf(const ScalarValue &value) { return value; }
  static Argument argumentOf(const std::vector<bool> &values) { return values; }
  static Argument argumentOf(const std::string &text) { return text; }
  static Argument argumentOf(bool value) { return value; }
  static Argument argumentOf(double value) { return value; }
  static Argument argumentOf(DType dtype) { return dtype; }
  static Argument argumentOf(int64_t value) { return value; }
  static Argument argumentOf(int value) { return int64_t(value); }
  static Argument argumentOf(int8_t value) { return int64_t(value); }
  static Argument argumentOf(uint64_t value) { return int64_t(value); }
  template <typename T> static Argument argumentOf(const std::optional<T> &value) {
    return value ? Argument(*value) : Argument();
  }
  int64_t taken = 0;
  bool isPriced = false; // addresses mean nothing
};

/// Returns a number as a scalar of operators on float32 tensors.
inline ScalarValue floatOf(double value) { return Builder::scalar(DType::F32, value); }
/// Adds the logarithm of the sum of exponentials over one dimension, which `to` has with size 1.
void logSumExp(Builder &b, const View &x, int64_t dimension, const View &to);
/// Adds a softmax over one dimension; `to` may be `x`.
void softmax(Builder &b, const View &x, int64_t dimension, const View &to);
/// Adds a product of matrices, or of a batch of them, which all have the same types and batch dimensions.
void multiply(Builder &b, const View &left, const View &right, const View &to);
/// Returns the neutral element of the maximum or the minimum of numbers of a type.
ScalarValue neutralOf(DType dtype, bool isMaximum);

/// Returns the calls of an instruction. Fails where CANN has no form of it, and names what it lacks.
Result<Calls> callsOf(const KernelRequest &request, const Target &target);

// The functions of the families, one row each in kRows (Calls.cpp).
void callUnary(Builder &b);
void callBinary(Builder &b);
void callCompare(Builder &b);
void callSelect(Builder &b);
void callConvert(Builder &b);
void callAccumulate(Builder &b);
void callReducePrecision(Builder &b);
void callIsNan(Builder &b);
// CallsGelu.cpp
void callGelu(Builder &b);
void callGeluBackward(Builder &b);
// CallsShape.cpp
void callConstant(Builder &b);
void callIota(Builder &b);
void callBroadcast(Builder &b);
void callTranspose(Builder &b);
void callSlice(Builder &b);
void callPad(Builder &b);
void callConcatenate(Builder &b);
void callSyncGradient(Builder &b);
void callShardOffset(Builder &b);
void callMaskPadding(Builder &b);
void callLocalSlice(Builder &b);
// CallsReduce.cpp
void callReduce(Builder &b);
void callCountNonfinite(Builder &b);
// CallsProduct.cpp
void callDotGeneral(Builder &b);
// CallsSoftmax.cpp
void callSoftmax(Builder &b);
void callSoftmaxBackward(Builder &b);
// CallsNorm.cpp
void callLayerNorm(Builder &b);
void callLayerNormBackward(Builder &b);
void callRmsNorm(Builder &b);
void callRmsNormBackward(Builder &b);
// CallsLoss.cpp
void callCrossEntropy(Builder &b);
void callCrossEntropyBackward(Builder &b);
// CallsLookup.cpp
void callGather(Builder &b);
void callScatterAdd(Builder &b);
void callEmbedding(Builder &b);
void callEmbeddingBackward(Builder &b);
void callTakeAlong(Builder &b);
void callTakeAlongBackward(Builder &b);
// CallsRouting.cpp
void callTopK(Builder &b);
void callTopKBackward(Builder &b);
void callDispatch(Builder &b);
void callCombine(Builder &b);
void callCombineBackward(Builder &b);
// CallsAttention.cpp
void callAttention(Builder &b);
void callAttentionBackward(Builder &b);
void callAttentionBlock(Builder &b);
void callAttentionBlockBackward(Builder &b);
// CallsRandom.cpp
void callDropout(Builder &b);
// CallsCodec.cpp
void callRandomKey(Builder &b);
void callRandom(Builder &b);
void callPack(Builder &b);
void callUnpack(Builder &b);
// CallsWindow.cpp
void callConvolution(Builder &b);
void callConvolutionTranspose(Builder &b);
void callConvolutionKernel(Builder &b);
void callReduceWindow(Builder &b);
void callSelectAndScatter(Builder &b);

} // namespace kerf::runtime::ascend
