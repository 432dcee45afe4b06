// SPDX-License-Identifier: Apache-2.0
// Ops that work on each element apart. StableHLO's names and semantics.
#ifndef KERF_ELEMENTWISE_TD
#define KERF_ELEMENTWISE_TD
include "kerf/Dialect/Kerf/KerfBase.td"

/// `linear`: the op is linear in its operand, so that a partial sum may pass through it. `element`: of the example.
/// `facts` (kerf/Dialect/Kerf/OpFacts.h): without In16Bits the op computes in f32, as where an error of 16 bits would grow
/// (exp, log, powers).
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

/// An op whose slope is 0 wherever it has one: no gradient comes back through it.
class Kerf_StepOp<string opMnemonic, Type type, string does, string formula>
    : Kerf_UnaryOp<opMnemonic, type, does, formula # "; the gradient is 0"> {
  let extraClassDefinition = "::kerf::Rule $cppClass::getShardingRule() { return ::kerf::ir::elementwise(getOperation(), {}); }\n"
      "::llvm::LogicalResult $cppClass::buildGradient(::mlir::OpBuilder &, ::llvm::ArrayRef<::mlir::Value>, ::llvm::ArrayRef<bool>, "
      "::llvm::SmallVectorImpl<::mlir::Value> &gradients) { gradients.assign(1, ::mlir::Value()); return ::mlir::success(); }";
}

def Kerf_NegateOp : Kerf_UnaryOp<"negate", Kerf_Tensor, "Negation", "-x[i]", 1>;
def Kerf_AbsOp : Kerf_UnaryOp<"abs", Kerf_Tensor, "Absolute value", "|x[i]|">;
def Kerf_SignOp : Kerf_StepOp<"sign", Kerf_Tensor, "Sign: -1, 0 or 1", "sign(x[i])">;
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
def Kerf_FloorOp : Kerf_StepOp<"floor", Kerf_FloatTensor, "Largest integer that is not greater", "floor(x[i])">;
def Kerf_CeilOp : Kerf_StepOp<"ceil", Kerf_FloatTensor, "Smallest integer that is not less", "ceil(x[i])">;
def Kerf_RoundNearestEvenOp : Kerf_StepOp<"round_nearest_even", Kerf_FloatTensor, "Nearest integer, the even one of two", "round(x[i])">;
def Kerf_StopGradientOp : Kerf_StepOp<"stop_gradient", Kerf_FloatTensor, "The value as a constant of differentiation", "x[i]">;
def Kerf_NotOp : Kerf_UnaryOp<"not", Kerf_IntTensor, "Logical (i1) or bitwise complement", "~x[i]", 0, 0, "i1">;

def Kerf_ConvertOp : Kerf_GlobalOp<"convert", [SameOperandsAndResultShape, Elementwise, Kerf_SameValue, Kerf_In16Bits<"AsItIs">,
    DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Conversion between element types";
  let description = [{
    Float to integer truncates toward zero; anything to i1 is `x != 0`; float to float rounds to nearest even, and what is too large becomes
    infinite. Rule: every dimension passes through, between floating types partial sums too.

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
  let summary = "Nearest number of a narrower floating format";
  let description = [{
    y[i] = x[i], rounded to nearest even at 2^(max(floor(log2 |x[i]|), min_exponent) - mantissa_bits): a format with so many bits behind the
    leading one, whose smallest normal number is 2^min_exponent. f8E4M3FN has 3 and -6, f16 10 and -14. What is larger than the format's largest
    number is only rounded, so that one op serves formats that saturate and formats with infinities; infinities, NaN and signed zeros pass.
    Each element apart; the gradient is the result's, rounded alike, as a framework's casts there and back round it.

    Verified: neither attribute asks for more than the element type can hold (16-bit elements as f32), and 1 is a normal number.

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
  let summary = "Whether an element is not a number";
  let description = [{
    Example:
    ```mlir
    %y = kerf.is_nan %x : (tensor<4xf32>) -> tensor<4xi1>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand);
  let results = (outs Kerf_BoolTensor:$result);
  let extraClassDefinition = "::kerf::Rule $cppClass::getShardingRule() { return ::kerf::ir::elementwise(getOperation(), {}); }";
}

/// `linearSets`: C++ initializer of the operand sets in which the op is jointly linear. `element`: of the example.
class Kerf_BinaryOp<string opMnemonic, Type type, string does, string formula, string linearSets = "{}", bit differentiable = 1,
                    list<Trait> traits = [], string element = "f32", list<Trait> facts = [Kerf_In16Bits<"Widest">]>
    : Kerf_GlobalOp<opMnemonic, !listconcat([SameOperandsAndResultType, Elementwise], traits, facts,
        !if(differentiable, [DeclareOpInterfaceMethods<GradientOpInterface>], []<Trait>))> {
  let summary = does;
  let description = "z[i] = " # formula # ". Shapes are equal: a broadcast is an op of its own.\n\nExample:\n```mlir\n%z = kerf." #
      opMnemonic # " %x, %y : (tensor<4x" # element # ">, tensor<4x" # element # ">) -> tensor<4x" # element # ">\n```";
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let extraClassDefinition = "::kerf::Rule $cppClass::getShardingRule() { return ::kerf::ir::elementwise(getOperation(), " #
      linearSets # "); }";
}

def Kerf_AddOp : Kerf_BinaryOp<"add", Kerf_Tensor, "Sum", "x[i] + y[i]", "{{0, 1}}", 1, [Commutative]>;
def Kerf_SubtractOp : Kerf_BinaryOp<"subtract", Kerf_Tensor, "Difference", "x[i] - y[i]", "{{0, 1}}">;
def Kerf_MultiplyOp : Kerf_BinaryOp<"multiply", Kerf_Tensor, "Product", "x[i] * y[i]", "{{0}, {1}}", 1, [Commutative]>;
def Kerf_DivideOp : Kerf_BinaryOp<"divide", Kerf_Tensor, "Quotient", "x[i] / y[i]; integers truncate toward zero", "{{0}}">;
def Kerf_MaximumOp : Kerf_BinaryOp<"maximum", Kerf_Tensor, "Greater of two (NaN wins)", "max(x[i], y[i])", "{}", 1, [Commutative]>;
def Kerf_MinimumOp : Kerf_BinaryOp<"minimum", Kerf_Tensor, "Lesser of two (NaN wins)", "min(x[i], y[i])", "{}", 1, [Commutative]>;
def Kerf_PowerOp : Kerf_BinaryOp<"power", Kerf_FloatTensor, "Power", "x[i] ^ y[i]", "{}", 1, [], "f32", [Kerf_ManyInstructions]>;
def Kerf_AndOp : Kerf_BinaryOp<"and", Kerf_IntTensor, "Logical (i1) or bitwise and", "x[i] & y[i]", "{}", 0, [Commutative], "i1">;
def Kerf_OrOp : Kerf_BinaryOp<"or", Kerf_IntTensor, "Logical (i1) or bitwise or", "x[i] | y[i]", "{}", 0, [Commutative], "i1">;

def Kerf_CompareOp : Kerf_GlobalOp<"compare", [SameTypeOperands, SameOperandsAndResultShape, Elementwise, Kerf_In16Bits<"Widest">]> {
  let summary = "Comparison of two tensors";
  let description = [{
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
  let summary = "One of two elements by a predicate";
  let description = [{
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
