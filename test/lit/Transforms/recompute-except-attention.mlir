// RUN: kerf-opt %s --kerf-recompute | FileCheck %s

// A layer runs its ops again, but not attention: the result of attention stays saved, and the sum follows from it.

// CHECK-LABEL: func.func private @layer(
// CHECK: %[[O:.*]], %{{.*}} = kerf.attention
// CHECK: return %{{[^,]*}}, %[[O]] :

// CHECK-LABEL: func.func private @layer_backward_except_attention(
// CHECK-SAME: %[[SAVED:[a-z0-9]+]]: {{[^,]*}}, %[[DY:[a-z0-9]+]]: {{[^,]*}}, %[[X:[a-z0-9]+]]: {{[^,]*}}, %[[OUT:[a-z0-9]+]]: {{[^,]*}})
// CHECK-NEXT: %[[Q:.*]] = kerf.tanh %[[X]]
// CHECK-NEXT: %[[S:.*]] = kerf.add %[[OUT]], %[[X]]
// CHECK-NEXT: kerf.multiply %[[DY]], %[[Q]]
// CHECK-NEXT: kerf.multiply %{{.*}}, %[[S]]
// CHECK-NEXT: kerf.multiply %{{.*}}, %[[SAVED]]
// CHECK-NEXT: return

func.func private @layer(%x: tensor<1x4x2x2xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) {
  %q = kerf.tanh %x : (tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  %o, %lse = kerf.attention %q, %q, %q {causal, scale = 1.0 : f64} : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x2x4xf32>)
  %s = kerf.add %o, %x : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  %y = kerf.tanh %s : (tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  return %y, %q, %s, %o : tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>
}
func.func private @layer_backward(%q: tensor<1x4x2x2xf32>, %s: tensor<1x4x2x2xf32>, %o: tensor<1x4x2x2xf32>, %dy: tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32> {
  %0 = kerf.multiply %dy, %q : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  %1 = kerf.multiply %0, %s : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  %2 = kerf.multiply %1, %o : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  return %2 : tensor<1x4x2x2xf32>
}

// The backward function of this layer does not read the result of attention itself. The forward function returns it all
// the same, for the sum that is computed again.

// CHECK-LABEL: func.func private @summed(
// CHECK: %[[O:.*]], %{{.*}} = kerf.attention
// CHECK: return %{{[^,]*}}, %[[O]] :

// CHECK-LABEL: func.func private @summed_backward_except_attention(
// CHECK-SAME: %[[DY:[a-z0-9]+]]: {{[^,]*}}, %[[X:[a-z0-9]+]]: {{[^,]*}}, %[[OUT:[a-z0-9]+]]: {{[^,]*}})
// CHECK-NEXT: %[[Q:.*]] = kerf.tanh %[[X]]
// CHECK-NEXT: %[[S:.*]] = kerf.add %[[OUT]], %[[X]]
// CHECK-NEXT: kerf.multiply %[[DY]], %[[Q]]
// CHECK-NEXT: kerf.multiply %{{.*}}, %[[S]]
// CHECK-NEXT: return

func.func private @summed(%x: tensor<1x4x2x2xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) {
  %q = kerf.tanh %x : (tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  %o, %lse = kerf.attention %q, %q, %q {causal, scale = 1.0 : f64} : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x2x4xf32>)
  %s = kerf.add %o, %x : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  %y = kerf.tanh %s : (tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  return %y, %q, %s : tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>
}
func.func private @summed_backward(%q: tensor<1x4x2x2xf32>, %s: tensor<1x4x2x2xf32>, %dy: tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32> {
  %0 = kerf.multiply %dy, %q : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  %1 = kerf.multiply %0, %s : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  return %1 : tensor<1x4x2x2xf32>
}

// CHECK-LABEL: func.func @main
// CHECK: kerf.call @layer_backward_except_attention(
// CHECK: kerf.call @summed_backward_except_attention(
func.func @main(%x: tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32> {
  %y, %q, %s, %o = kerf.call @layer(%x) : (tensor<1x4x2x2xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>)
  %z, %r, %u = kerf.call @summed(%y) : (tensor<1x4x2x2xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>)
  %d = kerf.call @layer_backward(%q, %s, %o, %z) {kerf.backward, kerf.recompute = "except-attention"} : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  %e = kerf.call @summed_backward(%r, %u, %d) {kerf.backward, kerf.recompute = "except-attention"} : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  return %e : tensor<1x4x2x2xf32>
}
