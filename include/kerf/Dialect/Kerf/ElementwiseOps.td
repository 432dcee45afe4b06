// SPDX-License-Identifier: Apache-2.0
// Ops that compute each element of the result from the elements at the same index of the operands. Names and semantics
// are StableHLO's.
#ifndef KERF_ELEMENTWISE_TD
#define KERF_ELEMENTWISE_TD
include "kerf/Dialect/Kerf/KerfBase.td"

/// An elementwise op with one operand. `linear` is 1 where the op is linear in the operand, so that a partial sum may
/// pass through the op. `element` is the element type in the example of the op's page. `facts` are traits of
/// kerf/Dialect/Kerf/OpFacts.h. An op without the trait In16Bits computes in f32 under mixed precision, because a
/// rounding error of 16 bits would grow (exp, log, powers).
class Kerf_UnaryOp<string opMnemonic, Type type, string does, string formula, bit linear = 0, bit differentiable = 1,
                   string element = "f32", list<Trait> facts = [Kerf_In16Bits<"Widest">]>
    : Kerf_GlobalOp<opMnemonic, !listconcat([SameOperandsAndResultType, Elementwise], facts,
        !if(differentiable, [DeclareOpInterfaceMethods<GradientOpInterface>], []<Trait>))> {
  let summary = does;
  let description = "y[i] = " # formula # ".\n\nExample:\n```mlir\n%y = kerf." # opMnemonic # " %x : (tensor<4x8x" #
      element # ">) -> tensor<4x8x" # element # ">\n```";
  let arguments = (ins type:$operand);
  let results = (outs type:$result);
  let extraClassDefinition = "::kerf::Rule $cppClass::getShardingRule() { return ::kerf::ir::elementwise(getOperation(), " #
      !if(linear, "{{0}}", "{}") # "); }";
}

/// An elementwise op whose derivative is 0 wherever the derivative exists, so that no gradient flows through the op.
class Kerf_StepOp<string opMnemonic, Type type, string does, string formula>
    : Kerf_UnaryOp<opMnemonic, type, does, formula # "; the gradient is 0"> {
  let extraClassDefinition = "::kerf::Rule $cppClass::getShardingRule() { return ::kerf::ir::elementwise(getOperation(), {}); }\n"
      "::llvm::LogicalResult $cppClass::buildGradient(::mlir::OpBuilder &, ::llvm::ArrayRef<::mlir::Value>, ::llvm::ArrayRef<bool>, "
      "::llvm::SmallVectorImpl<::mlir::Value> &gradients) { gradients.assign(1, ::mlir::Value()); return ::mlir::success(); }";
}

def Kerf_NegateOp : Kerf_UnaryOp<"negate", Kerf_Tensor, "Negates each element", "-x[i]", 1>;
def Kerf_AbsOp : Kerf_UnaryOp<"abs", Kerf_Tensor, "Absolute value of each element", "|x[i]|">;
def Kerf_SignOp : Kerf_StepOp<"sign", Kerf_Tensor, "Sign of each element: -1, 0 or 1", "sign(x[i])">;
def Kerf_ExponentialOp : Kerf_UnaryOp<"exponential", Kerf_FloatTensor, "Natural exponential", "exp(x[i])", 0, 1, "f32",
    [Kerf_ManyInstructions]>;
def Kerf_LogOp : Kerf_UnaryOp<"log", Kerf_FloatTensor, "Natural logarithm", "log(x[i])", 0, 1, "f32", [Kerf_ManyInstructions]>;
def Kerf_SqrtOp : Kerf_UnaryOp<"sqrt", Kerf_FloatTensor, "Square root", "sqrt(x[i])", 0, 1, "f32", []>;
def Kerf_RsqrtOp : Kerf_UnaryOp<"rsqrt", Kerf_FloatTensor, "Reciprocal square root", "1 / sqrt(x[i])", 0, 1, "f32", []>;
def Kerf_TanhOp : Kerf_UnaryOp<"tanh", Kerf_FloatTensor, "Hyperbolic tangent", "tanh(x[i])", 0, 1, "f32",
    [Kerf_In16Bits<"Widest">, Kerf_ManyInstructions]>;
def Kerf_LogisticOp : Kerf_UnaryOp<"logistic", Kerf_FloatTensor, "Logistic function (sigmoid)", "1 / (1 + exp(-x[i]))", 0, 1, "f32",
    [Kerf_In16Bits<"Widest">, Kerf_ManyInstructions]>;
def Kerf_ErfOp : Kerf_UnaryOp<"erf", Kerf_FloatTensor, "Error function", "erf(x[i])", 0, 1, "f32",
    [Kerf_In16Bits<"Widest">, Kerf_ManyInstructions]>;
def Kerf_SineOp : Kerf_UnaryOp<"sine", Kerf_FloatTensor, "Sine", "sin(x[i])", 0, 1, "f32",
    [Kerf_In16Bits<"Widest">, Kerf_ManyInstructions]>;
def Kerf_CosineOp : Kerf_UnaryOp<"cosine", Kerf_FloatTensor, "Cosine", "cos(x[i])", 0, 1, "f32",
    [Kerf_In16Bits<"Widest">, Kerf_ManyInstructions]>;
def Kerf_AtanOp : Kerf_UnaryOp<"atan", Kerf_FloatTensor, "Arctangent", "arctan(x[i])", 0, 1, "f32",
    [Kerf_In16Bits<"Widest">, Kerf_ManyInstructions]>;
def Kerf_FloorOp : Kerf_StepOp<"floor", Kerf_FloatTensor, "Rounds down to an integer", "floor(x[i])">;
def Kerf_CeilOp : Kerf_StepOp<"ceil", Kerf_FloatTensor, "Rounds up to an integer", "ceil(x[i])">;
def Kerf_RoundNearestEvenOp : Kerf_StepOp<"round_nearest_even", Kerf_FloatTensor, "Rounds to the nearest integer, ties to the even one", "round(x[i])">;
def Kerf_StopGradientOp : Kerf_StepOp<"stop_gradient", Kerf_FloatTensor, "Passes the value on and stops the gradient", "x[i]">;
def Kerf_NotOp : Kerf_UnaryOp<"not", Kerf_IntTensor, "Logical (i1) or bitwise complement of each element", "~x[i]", 0, 0, "i1">;

def Kerf_ConvertOp : Kerf_GlobalOp<"convert", [SameOperandsAndResultShape, Elementwise, Kerf_SameValue, Kerf_In16Bits<"OperandsAsIs">,
    DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Converts a tensor to another element type";
  let description = [{
    A float becomes an integer by truncation toward zero. Any number becomes i1 by the test `x != 0`. A float becomes
    a narrower float by rounding to the nearest, ties to even; a number that is too large for the narrower type
    becomes infinite. Rule: every dimension may be sharded. Between floating-point types a partial sum may be
    converted before the summands are added.

    Example:
    ```mlir
    %y = kerf.convert %x : (tensor<4xi64>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand);
  let results = (outs Kerf_Tensor:$result);
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def Kerf_ReducePrecisionOp : Kerf_GlobalOp<"reduce_precision", [SameOperandsAndResultType, Elementwise, Kerf_In16Bits<"Widest">,
    DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Rounds to the nearest number of a narrower floating-point format";
  let description = [{
    y[i] = x[i], rounded to the nearest multiple of 2^(max(floor(log2 |x[i]|), min_exponent) - mantissa_bits), ties to even.
    The result keeps the element type of `x`, but holds only numbers of the narrower format. The format has
    `mantissa_bits` bits behind the leading one, and its smallest normal number is 2^min_exponent: 3 and -6 for
    f8E4M3FN, 10 and -14 for f16.
    A number above the largest one of the format is rounded but not clamped, so that this op serves formats that
    saturate as well as formats with infinities. Infinities, NaN and signed zeros stay as they are. The gradient of
    `x` is the gradient of the result rounded in the same way, because a framework that casts to the format and back
    rounds its gradient in both casts too.

    * Neither attribute asks for more than the element type holds (for a 16-bit element type: more than f32 holds),
      and 1 is a normal number of the format.

    Example:
    ```mlir
    %y = kerf.reduce_precision %x {mantissa_bits = 44 : i64, min_exponent = -126 : i64} : (tensor<4x8xf64>) -> tensor<4x8xf64>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, I64Attr:$mantissa_bits, I64Attr:$min_exponent);
  let results = (outs Kerf_FloatTensor:$result);
  let hasVerifier = 1;
  let extraClassDefinition = "::kerf::Rule $cppClass::getShardingRule() { return ::kerf::ir::elementwise(getOperation(), {}); }";
}

def Kerf_IsNanOp : Kerf_GlobalOp<"is_nan", [SameOperandsAndResultShape, Elementwise, Kerf_In16Bits<"Widest">]> {
  let summary = "Tests each element for NaN";
  let description = [{
    The result is an i1 tensor of the operand's shape: true where the element is not a number.

    Example:
    ```mlir
    %y = kerf.is_nan %x : (tensor<4xf32>) -> tensor<4xi1>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand);
  let results = (outs Kerf_BoolTensor:$result);
  let extraClassDefinition = "::kerf::Rule $cppClass::getShardingRule() { return ::kerf::ir::elementwise(getOperation(), {}); }";
}

/// An elementwise op with two operands. `linearSets` is the C++ initializer of the list of operand sets in which the op
/// is jointly linear ({{0, 1}} for a sum, {{0}, {1}} for a product). `element` is the element type in the example of
/// the op's page.
class Kerf_BinaryOp<string opMnemonic, Type type, string does, string formula, string linearSets = "{}", bit differentiable = 1,
                    list<Trait> traits = [], string element = "f32", list<Trait> facts = [Kerf_In16Bits<"Widest">]>
    : Kerf_GlobalOp<opMnemonic, !listconcat([SameOperandsAndResultType, Elementwise], traits, facts,
        !if(differentiable, [DeclareOpInterfaceMethods<GradientOpInterface>], []<Trait>))> {
  let summary = does;
  let description = "z[i] = " # formula # ". Both operands have the result's shape; there is no implicit broadcast.\n\nExample:\n```mlir\n%z = kerf." #
      opMnemonic # " %x, %y : (tensor<4x" # element # ">, tensor<4x" # element # ">) -> tensor<4x" # element # ">\n```";
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let extraClassDefinition = "::kerf::Rule $cppClass::getShardingRule() { return ::kerf::ir::elementwise(getOperation(), " #
      linearSets # "); }";
}

def Kerf_AddOp : Kerf_BinaryOp<"add", Kerf_Tensor, "Sum of two tensors", "x[i] + y[i]", "{{0, 1}}", 1, [Commutative]> {
  let hasCanonicalizeMethod = 1;
}
def Kerf_SubtractOp : Kerf_BinaryOp<"subtract", Kerf_Tensor, "Difference of two tensors", "x[i] - y[i]", "{{0, 1}}">;
def Kerf_MultiplyOp : Kerf_BinaryOp<"multiply", Kerf_Tensor, "Elementwise product of two tensors", "x[i] * y[i]", "{{0}, {1}}", 1, [Commutative]>;
def Kerf_DivideOp : Kerf_BinaryOp<"divide", Kerf_Tensor, "Elementwise quotient of two tensors", "x[i] / y[i]; integers truncate toward zero", "{{0}}">;
def Kerf_MaximumOp : Kerf_BinaryOp<"maximum", Kerf_Tensor, "Elementwise maximum; NaN where either element is NaN", "max(x[i], y[i])", "{}", 1, [Commutative]>;
def Kerf_MinimumOp : Kerf_BinaryOp<"minimum", Kerf_Tensor, "Elementwise minimum; NaN where either element is NaN", "min(x[i], y[i])", "{}", 1, [Commutative]>;
def Kerf_PowerOp : Kerf_BinaryOp<"power", Kerf_FloatTensor, "Elementwise power", "x[i] ^ y[i]", "{}", 1, [], "f32", [Kerf_ManyInstructions]>;
def Kerf_AndOp : Kerf_BinaryOp<"and", Kerf_IntTensor, "Elementwise logical (i1) or bitwise and", "x[i] & y[i]", "{}", 0, [Commutative], "i1">;
def Kerf_OrOp : Kerf_BinaryOp<"or", Kerf_IntTensor, "Elementwise logical (i1) or bitwise or", "x[i] | y[i]", "{}", 0, [Commutative], "i1">;

def Kerf_CompareOp : Kerf_GlobalOp<"compare", [SameTypeOperands, SameOperandsAndResultShape, Elementwise, Kerf_In16Bits<"Widest">]> {
  let summary = "Compares two tensors element by element";
  let description = [{
    z[i] is true where x[i] stands in the relation `direction` to y[i]: EQ, NE, LT, LE, GT or GE. Both operands have
    one type; the result is an i1 tensor of their shape.

    Example:
    ```mlir
    %z = kerf.compare %x, %y {direction = #kerf<comparison LT>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$lhs, Kerf_Tensor:$rhs, Kerf_ComparisonAttr:$direction);
  let results = (outs Kerf_BoolTensor:$result);
  let extraClassDefinition = "::kerf::Rule $cppClass::getShardingRule() { return ::kerf::ir::elementwise(getOperation(), {}); }";
}

def Kerf_SelectOp : Kerf_GlobalOp<"select", [AllTypesMatch<["onTrue", "onFalse", "result"]>, SameOperandsAndResultShape, Elementwise,
                                             Kerf_In16Bits<"Widest">, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Selects each element from one of two tensors by a predicate";
  let description = [{
    z[i] = x[i] where p[i] is true, and y[i] elsewhere. All shapes are equal.

    Example:
    ```mlir
    %z = kerf.select %p, %x, %y : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Kerf_BoolTensor:$predicate, Kerf_Tensor:$onTrue, Kerf_Tensor:$onFalse);
  let results = (outs Kerf_Tensor:$result);
  let extraClassDefinition = "::kerf::Rule $cppClass::getShardingRule() { return ::kerf::ir::elementwise(getOperation(), {{1, 2}}); }";
}

#endif
