// RUN: kerf-opt %s -split-input-file -kerf-cut-stages=until=a,b -verify-diagnostics

// expected-error @below {{stages: until "a" matches no operator of the forward pass; these are "c/tanh" to "reduce", with a layer's number in place of *}}
func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable},
                %i: tensor<4xf32> {kerf.kind = "input", kerf.name = "i"}) -> tensor<f32> {
  %x = kerf.tanh %w : (tensor<4xf32>) -> tensor<4xf32> loc("c/act")
  %y = kerf.multiply %x, %i : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("b")
  %l = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32> loc("sum")
  return %l : tensor<f32>
}

// -----

// expected-error @below {{stages: until "b" leaves no operator for part 1 of the pipeline, because the operators that it matches are in an earlier part, or depend on inputs alone; end this part at a later operator}}
func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable},
                %i: tensor<4xf32> {kerf.kind = "input", kerf.name = "i"}) -> tensor<f32> {
  %x = kerf.multiply %w, %i : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("b")
  %y = kerf.tanh %x : (tensor<4xf32>) -> tensor<4xf32> loc("a")
  %l = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32> loc("sum")
  return %l : tensor<f32>
}

// -----

// expected-error @below {{stages: until "b" leaves no operator for part 1 of the pipeline, because the operators that it matches are in an earlier part, or depend on inputs alone; end this part at a later operator}}
func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable},
                %i: tensor<4xf32> {kerf.kind = "input", kerf.name = "i"}) -> tensor<f32> {
  %x = kerf.multiply %w, %i : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("a")
  %m = kerf.tanh %i : (tensor<4xf32>) -> tensor<4xf32> loc("b")
  %y = kerf.add %x, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32> loc("sum")
  return %l : tensor<f32>
}

// -----

// expected-error @below {{stages: until "b" leaves no operator for the last part; end the part before it at an earlier operator}}
func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable},
                %i: tensor<4xf32> {kerf.kind = "input", kerf.name = "i"}) -> tensor<f32> {
  %x = kerf.multiply %w, %i : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("a")
  %l = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32> loc("b")
  return %l : tensor<f32>
}

// -----

func.func private @layer(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %y = kerf.multiply %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("a")
  return %y : tensor<4xf32>
}
func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable},
                %i: tensor<4xf32> {kerf.kind = "input", kerf.name = "i"}) -> tensor<f32> {
  // expected-error @below {{stands for 2 layers that cannot be separated; the call has 1 results and the location '', but needs one result and a location that ends in the number of its first layer}}
  %x = kerf.call @layer(%i, %w) {kerf.repeat = 2 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32> loc("b")
  return %l : tensor<f32>
}
