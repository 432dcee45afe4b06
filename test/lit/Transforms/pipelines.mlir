// RUN: kerf-opt %s --kerf-step --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=STEP
// RUN: kerf-opt %s --kerf-lowering --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=PLACED
// RUN: kerf-opt %s --kerf-lowering="tasks=true split-backward=true chunk-products=true chunks=2" --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=TASKS
// RUN: kerf-opt %s --kerf-step --kerf-placement --kerf-lowering=tasks=true --kerf-packaging | FileCheck %s

// The pipelines that the compiler runs have names. Together they make the program of one rank from an imported graph.

// STEP: builtin.module(kerf-recognize-composites,kerf-fold-reshapes,canonicalize{{.*}},cse,kerf-outline-layers,kerf-differentiate,kerf-add-optimizer{{.*}},canonicalize{{.*}},cse)

// PLACED: builtin.module(kerf-partition,cse,kerf-schedule-collectives{{.*}})

// TASKS: builtin.module(kerf-partition,cse,kerf-chunk-products,kerf-schedule-collectives{all=true},kerf-recompute,cse,kerf-split-backward,kerf-offload-activations,kerf-assign-tasks{chunks=2 split-backward=true})

// CHECK-LABEL: func.func private @fused_
// CHECK-LABEL: func.func @main(
// CHECK: kerf.call @fused_
module {
  kerf.mesh @mesh #kerf.mesh<"data"=2>
  func.func @main(%x: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "x", kerf.sharding = #kerf.sharding<[{"data"}, {}]>},
                  %w: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> (tensor<f32> {kerf.name = "loss"}) {
    %y = kerf.dot_general %x, %w {lhs_batching = array<i64>, lhs_contracting = array<i64: 1>, rhs_batching = array<i64>, rhs_contracting = array<i64: 0>}
        : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %t = kerf.tanh %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %q = kerf.multiply %t, %t : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %loss = kerf.reduce %q {dimensions = array<i64: 0, 1>, kind = #kerf<reduce_kind sum>} : (tensor<4x8xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
