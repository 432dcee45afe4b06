// SPDX-License-Identifier: Apache-2.0
// The aclnn operators that the device calls: one record each, with its name, the element types that it takes, and its
// arguments in their order. The interface of each is documented in CANN's "Operator Acceleration Library API"; the
// arguments are those of its first call, aclnn<Name>GetWorkspaceSize, without the last two, which are the same for all.
#pragma once

#include "Views.h"
#include <optional>
#include <span>
#include <variant>

namespace kerf::runtime::ascend {

/// The kinds of arguments.
enum class Kind {
  In,       // const aclTensor *
  MaybeIn,  // const aclTensor *, which may be null
  Out,      // aclTensor *
  MaybeOut, // aclTensor *, which may be null
  InOut,    // aclTensor *, read and written
  Scalar,   // const aclScalar *
  Ints,     // const aclIntArray *, which may be null
  Bools,    // const aclBoolArray *
  Bool,     // bool
  Int,      // int64_t
  Int32,    // int
  Int8,     // int8_t
  Uint,     // uint64_t
  Type,     // aclDataType
  Double,   // double
  Text      // char *
};

/// A number as an argument, in the element type in which the operator computes with it.
struct ScalarValue {
  DType dtype;
  double number;       // of a floating type
  int64_t integer = 0; // of any other type
};
using Argument = std::variant<std::monostate, View, ScalarValue, std::vector<int64_t>, std::vector<bool>, bool, int64_t,
                              double, DType, std::string>;

/// An argument as the C function takes it.
union Handle {
  void *pointer;
  int64_t integer;
  double number;
};

/// A set of element types: bit DType is set for each of them.
using Types = uint32_t;
constexpr Types typesOf(std::initializer_list<DType> list) {
  Types types = 0;
  for (DType dtype : list)
    types |= 1U << unsigned(dtype);
  return types;
}
inline constexpr Types kFloats = typesOf({DType::F32, DType::F16, DType::BF16});
inline constexpr Types kIndices = typesOf({DType::I64, DType::I32});
inline constexpr Types kFlags = typesOf({DType::Bool});
inline constexpr Types kNumbers = kFloats | kIndices | kFlags | typesOf({DType::F64, DType::I16, DType::I8, DType::U8});

/// The record of an operator. Its types are those of all tensors among its arguments.
struct Operator {
  const char *name; // "aclnnAdd"
  Types types;
  std::span<const Kind> kinds;
  /// Calls the function aclnn<Name>GetWorkspaceSize at `function`.
  AclResult (*first)(void *function, std::span<const Handle> arguments, uint64_t *workspace, void **executor);
};

template <Kind k> struct KindOf {
  using C = void *;
  using Value = const View &;
  static C from(Handle handle) { return handle.pointer; }
};
#define KERF_KIND(kind, c, value, member)                                                                              \
  template <> struct KindOf<Kind::kind> {                                                                              \
    using C = c;                                                                                                       \
    using Value = value;                                                                                               \
    static C from(Handle handle) { return C(handle.member); }                                                          \
  };
KERF_KIND(MaybeIn, void *, const std::optional<View> &, pointer)
KERF_KIND(MaybeOut, void *, const std::optional<View> &, pointer)
KERF_KIND(Scalar, void *, const ScalarValue &, pointer)
KERF_KIND(Ints, void *, const std::optional<std::vector<int64_t>> &, pointer)
KERF_KIND(Bools, void *, const std::vector<bool> &, pointer)
KERF_KIND(Bool, bool, bool, integer)
KERF_KIND(Int, int64_t, int64_t, integer)
KERF_KIND(Int32, int, int, integer)
KERF_KIND(Int8, int8_t, int8_t, integer)
KERF_KIND(Uint, uint64_t, uint64_t, integer)
KERF_KIND(Type, int, DType, integer)
KERF_KIND(Double, double, double, number)
KERF_KIND(Text, char *, const std::string &, pointer)
#undef KERF_KIND

/// The record of an operator with arguments of these kinds.
template <Kind... ks> struct OperatorOf : Operator {
  static constexpr Kind kKinds[] = {ks...};
  constexpr OperatorOf(const char *name, Types types) : Operator{name, types, kKinds, callFirst} {}
  static AclResult callFirst(void *function, std::span<const Handle> arguments, uint64_t *workspace, void **executor) {
    return call(function, arguments, workspace, executor, std::make_index_sequence<sizeof...(ks)>());
  }
  template <size_t... i>
  static AclResult call(void *function, std::span<const Handle> arguments, uint64_t *workspace, void **executor,
                        std::index_sequence<i...>) {
    auto *typed = reinterpret_cast<AclResult (*)(typename KindOf<ks>::C..., uint64_t *, void **)>(function);
    return typed(KindOf<ks>::from(arguments[i])..., workspace, executor);
  }
};

namespace op {
using enum Kind;
/// The records: KERF_OPERATOR(name without "aclnn", element types, kinds of the arguments).
#define KERF_OPERATORS(KERF_OPERATOR)                                                                                  \
  /* Matrix products and convolutions. The last number says how float32 is multiplied: 0 keeps it. */                  \
  KERF_OPERATOR(Matmul, kFloats, In, In, Out, Int8)                                                                    \
  KERF_OPERATOR(Addmm, kFloats, In, In, In, Scalar, Scalar, Out, Int8)                                                 \
  KERF_OPERATOR(Baddbmm, kFloats, In, In, In, Scalar, Scalar, Out, Int8)                                               \
  KERF_OPERATOR(Convolution, kFloats, In, In, MaybeIn, Ints, Ints, Ints, Bool, Ints, Int, Out, Int8)                   \
  KERF_OPERATOR(ConvolutionBackward, kFloats, In, In, In, Ints, Ints, Ints, Ints, Bool, Ints, Int32, Bools, Int8,      \
                MaybeOut, MaybeOut, MaybeOut)                                                                          \
  /* Single elements. */                                                                                               \
  KERF_OPERATOR(Add, kNumbers, In, In, Scalar, Out)                                                                    \
  KERF_OPERATOR(Adds, kNumbers, In, Scalar, Scalar, Out)                                                               \
  KERF_OPERATOR(Sub, kNumbers, In, In, Scalar, Out)                                                                    \
  KERF_OPERATOR(Mul, kNumbers, In, In, Out)                                                                            \
  KERF_OPERATOR(Muls, kNumbers, In, Scalar, Out)                                                                       \
  KERF_OPERATOR(Div, kNumbers, In, In, Out)                                                                            \
  KERF_OPERATOR(DivMod, kNumbers, In, In, Int32, Out)                                                                  \
  KERF_OPERATOR(Maximum, kNumbers, In, In, Out)                                                                        \
  KERF_OPERATOR(Minimum, kNumbers, In, In, Out)                                                                        \
  KERF_OPERATOR(PowTensorTensor, kNumbers, In, In, Out)                                                                \
  KERF_OPERATOR(BitwiseAndTensor, kNumbers, In, In, Out)                                                               \
  KERF_OPERATOR(BitwiseOrTensor, kNumbers, In, In, Out)                                                                \
  KERF_OPERATOR(LogicalAnd, kNumbers, In, In, Out)                                                                     \
  KERF_OPERATOR(LogicalOr, kNumbers, In, In, Out)                                                                      \
  KERF_OPERATOR(LogicalNot, kNumbers, In, Out)                                                                         \
  KERF_OPERATOR(BitwiseNot, kNumbers, In, Out)                                                                         \
  KERF_OPERATOR(Neg, kNumbers, In, Out)                                                                                \
  KERF_OPERATOR(Abs, kNumbers, In, Out)                                                                                \
  KERF_OPERATOR(Sign, kNumbers, In, Out)                                                                               \
  KERF_OPERATOR(Exp, kNumbers, In, Out)                                                                                \
  KERF_OPERATOR(Log, kNumbers, In, Out)                                                                                \
  KERF_OPERATOR(Sqrt, kNumbers, In, Out)                                                                               \
  KERF_OPERATOR(Rsqrt, kNumbers, In, Out)                                                                              \
  KERF_OPERATOR(Tanh, kNumbers, In, Out)                                                                               \
  KERF_OPERATOR(Sigmoid, kNumbers, In, Out)                                                                            \
  KERF_OPERATOR(Erf, kNumbers, In, Out)                                                                                \
  KERF_OPERATOR(Sin, kNumbers, In, Out)                                                                                \
  KERF_OPERATOR(Cos, kNumbers, In, Out)                                                                                \
  KERF_OPERATOR(Atan, kNumbers, In, Out)                                                                               \
  KERF_OPERATOR(Floor, kNumbers, In, Out)                                                                              \
  KERF_OPERATOR(Ceil, kNumbers, In, Out)                                                                               \
  KERF_OPERATOR(Round, kNumbers, In, Out)                                                                              \
  KERF_OPERATOR(Gelu, kFloats, In, Out)                                                                                \
  KERF_OPERATOR(GeluBackward, kFloats, In, In, Out)                                                                    \
  KERF_OPERATOR(GeluV2, kFloats, In, Int, Out)                                                                         \
  KERF_OPERATOR(GeluBackwardV2, kFloats, In, In, Text, Out)                                                            \
  KERF_OPERATOR(Clamp, kNumbers, In, Scalar, Scalar, Out)                                                              \
  KERF_OPERATOR(SWhere, kNumbers, In, In, In, Out)                                                                     \
  KERF_OPERATOR(InplaceMaskedFillScalar, kNumbers, InOut, In, Scalar)                                                  \
  KERF_OPERATOR(EqTensor, kNumbers, In, In, Out)                                                                       \
  KERF_OPERATOR(NeTensor, kNumbers, In, In, Out)                                                                       \
  KERF_OPERATOR(LtTensor, kNumbers, In, In, Out)                                                                       \
  KERF_OPERATOR(LeTensor, kNumbers, In, In, Out)                                                                       \
  KERF_OPERATOR(GtTensor, kNumbers, In, In, Out)                                                                       \
  KERF_OPERATOR(GeTensor, kNumbers, In, In, Out)                                                                       \
  KERF_OPERATOR(GtScalar, kNumbers, In, Scalar, Out)                                                                   \
  KERF_OPERATOR(IsFinite, kNumbers, In, Out)                                                                           \
  /* Creation, layout and type. */                                                                                     \
  KERF_OPERATOR(InplaceFillScalar, kNumbers, InOut, Scalar)                                                            \
  KERF_OPERATOR(InplaceZero, kNumbers, InOut)                                                                          \
  KERF_OPERATOR(Arange, kNumbers, Scalar, Scalar, Scalar, Out)                                                         \
  KERF_OPERATOR(InplaceCopy, kNumbers, InOut, In)                                                                      \
  KERF_OPERATOR(Cast, kNumbers, In, Type, Out)                                                                         \
  /* Reductions and sorting. */                                                                                        \
  KERF_OPERATOR(ReduceSum, kNumbers, In, Ints, Bool, Type, Out)                                                        \
  KERF_OPERATOR(Amax, kNumbers, In, Ints, Bool, Out)                                                                   \
  KERF_OPERATOR(Amin, kNumbers, In, Ints, Bool, Out)                                                                   \
  KERF_OPERATOR(Any, kNumbers, In, Ints, Bool, Out)                                                                    \
  KERF_OPERATOR(All, kNumbers, In, Ints, Bool, Out)                                                                    \
  KERF_OPERATOR(Cumsum, kNumbers, In, Int, Type, Out)                                                                  \
  KERF_OPERATOR(LogSumExp, kFloats, In, Ints, Bool, Out)                                                               \
  KERF_OPERATOR(Sort, kNumbers, In, Bool, Int, Bool, Out, Out)                                                         \
  /* Softmax and normalizations. */                                                                                    \
  KERF_OPERATOR(Softmax, kFloats, In, Int, Out)                                                                        \
  KERF_OPERATOR(SoftmaxBackward, kFloats, In, In, Int, Out)                                                            \
  KERF_OPERATOR(LayerNorm, kFloats, In, Ints, MaybeIn, MaybeIn, Double, Out, MaybeOut, MaybeOut)                       \
  KERF_OPERATOR(LayerNormBackward, kFloats, In, In, Ints, In, In, MaybeIn, MaybeIn, Bools, Out, Out, Out)              \
  KERF_OPERATOR(RmsNorm, kFloats, In, In, Double, Out, Out)                                                            \
  KERF_OPERATOR(RmsNormGrad, kFloats, In, In, In, In, Out, Out)                                                        \
  /* Lookups. */                                                                                                       \
  KERF_OPERATOR(Embedding, kNumbers, In, In, Out)                                                                      \
  KERF_OPERATOR(EmbeddingDenseBackward, kFloats | kIndices, In, In, Uint, Uint, Bool, Out)                             \
  KERF_OPERATOR(Gather, kNumbers, In, Int, In, Out)                                                                    \
  KERF_OPERATOR(GatherV2, kNumbers, In, Int, In, Out)                                                                  \
  KERF_OPERATOR(ScatterAdd, kFloats | kIndices, In, Int, In, In, Out)                                                  \
  /* Attention. */                                                                                                     \
  KERF_OPERATOR(FlashAttentionScore, kFloats | kFlags, In, In, In, MaybeIn, MaybeIn, MaybeIn, MaybeIn, Ints, Double,   \
                Double, Int, Int, Int, Text, Int, Int, Out, Out, MaybeOut, Out)                                        \
  KERF_OPERATOR(FlashAttentionScoreGrad, kFloats | kFlags, In, In, In, In, MaybeIn, MaybeIn, MaybeIn, MaybeIn,         \
                MaybeIn, MaybeIn, MaybeIn, MaybeIn, Ints, Double, Double, Int, Int, Int, Text, Int, Int, Out, Out,     \
                Out, MaybeOut)

#define KERF_RECORD(name, types, ...) inline constexpr OperatorOf<__VA_ARGS__> name{"aclnn" #name, types};
KERF_OPERATORS(KERF_RECORD)
#undef KERF_RECORD
} // namespace op

/// Returns the number of an element type in aclDataType; -1 for a type that CANN does not have.
constexpr int aclTypeOf(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return 0;
  case DType::F16:
    return 1;
  case DType::I8:
    return 2;
  case DType::I32:
    return 3;
  case DType::U8:
    return 4;
  case DType::I16:
    return 6;
  case DType::U16:
    return 7;
  case DType::U32:
    return 8;
  case DType::I64:
    return 9;
  case DType::U64:
    return 10;
  case DType::F64:
    return 11;
  case DType::Bool:
    return 12;
  case DType::BF16:
    return 27;
  default:
    return -1;
  }
}

/// The two functions of an operator.
struct OperatorFunctions {
  void *first = nullptr;
  AclResult (*second)(void *workspace, uint64_t bytes, void *executor, AclStream stream) = nullptr;
};
/// Finds the functions of an operator. Fails where this release of CANN has no such operator, and names both.
Result<OperatorFunctions> findOperator(const Acl &acl, const Operator &one);

} // namespace kerf::runtime::ascend
