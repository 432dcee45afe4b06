// RUN: kerf-opt %s -split-input-file -kerf-add-optimizer -verify-diagnostics
// RUN: not kerf-opt %s -kerf-add-optimizer="optimizer=rmsprop" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not kerf-opt %s -kerf-add-optimizer="settings=momentum=1.0" 2>&1 | FileCheck %s --check-prefix=MOMENTUM
// RUN: not kerf-opt %s -kerf-add-optimizer="clip-norm=-1.0" 2>&1 | FileCheck %s --check-prefix=CLIP
// RUN: not kerf-opt %s -kerf-add-optimizer="optimizer=adamw settings=eps=0.0" 2>&1 | FileCheck %s --check-prefix=EPS
// RUN: not kerf-opt %s -kerf-add-optimizer="optimizer=adamw settings=momentum=0.9" 2>&1 | FileCheck %s --check-prefix=FOREIGN
// RUN: not kerf-opt %s -kerf-add-optimizer="settings=momentum" 2>&1 | FileCheck %s --check-prefix=SETTING
// RUN: not kerf-opt %s -kerf-add-optimizer="optimizer=muon settings=ns-steps=2.5" 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: not kerf-opt %s -kerf-add-optimizer="reduce-type=f32" 2>&1 | FileCheck %s --check-prefix=REDUCE
// RUN: not kerf-opt %s -kerf-add-optimizer="loss-scale-window=0" 2>&1 | FileCheck %s --check-prefix=WINDOW

// NAME: unknown optimizer 'rmsprop'; there are sgd, adam, adamw, onebit-adam, zero-one-adam, adagrad, lion, lamb, adafactor, muon
// MOMENTUM: optimizer option --momentum is 1; it must be 0 or more and less than 1
// CLIP: optimizer option <clip-norm> is -1; it must be 0 or more and finite
// EPS: optimizer option --eps is 0; it must be more than 0 and finite
// FOREIGN: optimizer adamw has no setting 'momentum'; it has beta1, beta2, eps, weight-decay
// SETTING: 'momentum' is no setting of an optimizer; give NAME=NUMBER, such as momentum=0.9
// WHOLE: optimizer option --ns-steps is 2.5; it must be a whole number, 1 or more and less than 100
// REDUCE: optimizer option reduce-type is 'f32'; it must be bf16 or f16
// WINDOW: optimizer option <loss-scale-window> is 0; it must be 1 or more

// expected-error @below {{no function @main with one block; import a model first}}
module {
}

// -----

module @gradients_are_missing {
  // expected-error @below {{trainable parameter 'w' (argument 0) has no result 'gradient/w'; run kerf-differentiate first}}
  func.func @main(%w: tensor<f32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<f32> {
    return %w : tensor<f32>
  }
}

// -----

module @nothing_is_trained {
  // expected-error @below {{there is no trainable parameter; run kerf-differentiate first, or choose some with <trainable>}}
  func.func @main(%w: tensor<f32> {kerf.kind = "parameter", kerf.name = "w"}) -> tensor<f32> {
    return %w : tensor<f32>
  }
}

// -----

module @an_optimizer_was_added_before {
  // expected-error @below {{argument 0 is updated already, because an optimizer was added before; run kerf-add-optimizer only once}}
  func.func @main(%w: tensor<f32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable, kerf.updated_by = 1 : i64})
      -> (tensor<f32>, tensor<f32> {kerf.name = "w"}) {
    return %w, %w : tensor<f32>, tensor<f32>
  }
}
