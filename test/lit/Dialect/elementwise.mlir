// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// Every elementwise op as its documentation shows it, through the printer and the parser.

// CHECK-LABEL: @one_operand
func.func @one_operand(%x: tensor<4x8xf32>, %p: tensor<4xi1>) {
  // CHECK: kerf.negate %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = kerf.negate %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.abs
  %1 = kerf.abs %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.sign
  %2 = kerf.sign %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.exponential
  %3 = kerf.exponential %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.log
  %4 = kerf.log %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.sqrt
  %5 = kerf.sqrt %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.rsqrt
  %6 = kerf.rsqrt %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.tanh
  %7 = kerf.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.logistic
  %8 = kerf.logistic %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.erf
  %9 = kerf.erf %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.sine
  %10 = kerf.sine %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.cosine
  %11 = kerf.cosine %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.atan
  %a = kerf.atan %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.reduce_precision %{{.*}} {mantissa_bits = 3 : i64, min_exponent = -6 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = kerf.reduce_precision %x {mantissa_bits = 3 : i64, min_exponent = -6 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: kerf.not %{{.*}} : (tensor<4xi1>) -> tensor<4xi1>
  %12 = kerf.not %p : (tensor<4xi1>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @types
func.func @types(%x: tensor<4xf32>, %i: tensor<4xi64>) {
  // CHECK: kerf.convert %{{.*}} : (tensor<4xi64>) -> tensor<4xf32>
  %0 = kerf.convert %i : (tensor<4xi64>) -> tensor<4xf32>
  // CHECK: kerf.is_nan %{{.*}} : (tensor<4xf32>) -> tensor<4xi1>
  %1 = kerf.is_nan %x : (tensor<4xf32>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @two_operands
func.func @two_operands(%x: tensor<4xf32>, %y: tensor<4xf32>, %i: tensor<4xi64>) {
  // CHECK: kerf.add %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %0 = kerf.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: kerf.subtract
  %1 = kerf.subtract %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: kerf.multiply
  %2 = kerf.multiply %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: kerf.divide
  %3 = kerf.divide %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: kerf.maximum
  %4 = kerf.maximum %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: kerf.minimum
  %5 = kerf.minimum %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: kerf.power
  %6 = kerf.power %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: kerf.and %{{.*}} : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %7 = kerf.and %i, %i : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  // CHECK: kerf.or
  %8 = kerf.or %i, %i : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  return
}

// CHECK-LABEL: @predicates
func.func @predicates(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[LESS:.*]] = kerf.compare %{{.*}}, %{{.*}} {direction = #kerf<comparison LT>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %p = kerf.compare %x, %y {direction = #kerf<comparison LT>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  // CHECK: kerf.select %[[LESS]], %{{.*}}, %{{.*}} : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = kerf.select %p, %x, %y : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
