// RUN: kerf-opt %s -split-input-file -kerf-mixed-precision -verify-diagnostics
// RUN: not kerf-opt %s -kerf-mixed-precision="dtype=f8" 2>&1 | FileCheck %s --check-prefix=DTYPE
// RUN: not kerf-opt %s -kerf-mixed-precision="loss-scale=3" 2>&1 | FileCheck %s --check-prefix=SCALE

// DTYPE: unknown 16-bit type 'f8'; there are bf16 and f16
// SCALE: unknown loss-scale '3'; there are none, dynamic and static

// expected-error @below {{no function @main with one block; import a model first}}
module {
}

// -----

module @nothing_is_returned {
  // expected-error @below {{has no floating-point value as its first result; that must be the loss}}
  func.func @main(%w: tensor<f32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) {
    return
  }
}

// -----

module @the_model_is_f64 {
  // expected-error @below {{has a value of type 'tensor<f64>'; mixed precision needs a model in f32: import the model in f32}}
  func.func @main(%w: tensor<f64> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<f64> {
    return %w : tensor<f64>
  }
}

// -----

module @it_is_differentiated_already {
  func.func @main(%w: tensor<f32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<f32> {
    // expected-error @below {{belongs to a gradient; run kerf-mixed-precision before kerf-differentiate}}
    %0 = kerf.negate %w {kerf.backward} : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
