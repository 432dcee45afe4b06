// RUN: kerf-opt %s -split-input-file -kerf-differentiate -verify-diagnostics

// expected-error @below {{no function @main; import a model first}}
module {
  func.func @a_module_without_a_model() { return }
}

// -----

module @the_loss_is_no_scalar {
  // expected-error @below {{the loss has type 'tensor<4xf32>', not that of a floating scalar (tensor<f32>); choose another output with <loss>}}
  func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<4xf32> {
    return %w : tensor<4xf32>
  }
}

// -----

module @the_loss_is_no_floating_number {
  func.func @main(%w: tensor<f32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<i64> {
    // expected-error @below {{the loss has type 'tensor<i64>'}}
    %0 = kerf.convert %w : (tensor<f32>) -> tensor<i64>
    return %0 : tensor<i64>
  }
}

// -----

module @there_is_no_loss {
  // expected-error @below {{returns nothing; its first result must be the loss}}
  func.func @main(%w: tensor<f32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) { return }
}

// -----

module @nothing_is_trained {
  func.func @main(%w: tensor<f32> {kerf.kind = "parameter", kerf.name = "w"},
                  %u: tensor<f32> {kerf.kind = "parameter", kerf.name = "u", kerf.trainable}) -> tensor<f32> {
    // expected-error @below {{the loss depends on none of the 1 trainable parameters; choose others with <trainable>}}
    %0 = kerf.tanh %w : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

module @integers_are_trained {
  // expected-error @below {{trainable argument 0 has type 'tensor<i64>'; only floating-point tensors can be trained, so freeze it with <frozen>}}
  func.func @main(%w: tensor<i64> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<i64> {
    return %w : tensor<i64>
  }
}

// -----

module @a_trained_parameter_has_no_name {
  // expected-error @below {{trainable argument 0 has no kerf.name; give it one}}
  func.func @main(%w: tensor<f32> {kerf.kind = "parameter", kerf.trainable}) -> tensor<f32> {
    return %w : tensor<f32>
  }
}

// -----

module @ops_without_a_gradient_in_the_way {
  func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<f32> {
    // expected-error @below {{kerf.softmax_backward at node '(no name)' has no gradient, but stands between trainable parameters ('w') and the loss; freeze them with <frozen>}}
    %0 = kerf.softmax_backward %w, %w {dimension = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = kerf.tanh %0 : (tensor<4xf32>) -> tensor<4xf32>
    // expected-note @below {{so does kerf.softmax_backward at node '(no name)'}}
    %2 = kerf.softmax_backward %1, %1 {dimension = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = kerf.reduce %2 {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %3 : tensor<f32>
  }
}

// -----

module @a_layer_calls_itself {
  func.func private @layer(%x: tensor<f32>) -> tensor<f32> {
    // expected-error @below {{calls @layer from inside of it; a layer may not call itself}}
    %0 = kerf.call @layer(%x) : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
  func.func @main(%w: tensor<f32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<f32> {
    %0 = kerf.call @layer(%w) : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
