// RUN: kerf-opt %s --kerf-step --kerf-placement --kerf-lowering --kerf-packaging --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=PASSES
// RUN: kerf-opt %s --kerf-step --kerf-placement --kerf-lowering="tasks=true split-backward=true chunk-products=true" --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=TASKS
// RUN: kerf-opt %s --kerf-step --kerf-placement --kerf-lowering=tasks=true --kerf-packaging | FileCheck %s

// The pipelines that the compiler runs have names. Together they turn an imported graph into the program of one rank.

// PASSES: kerf-recognize-composites,
// PASSES-NEXT: kerf-fold-reshapes,
// PASSES-NEXT: canonicalize{{.*}},
// PASSES-NEXT: cse,
// PASSES-NEXT: kerf-outline-layers,
// PASSES-NEXT: kerf-differentiate,
// PASSES-NEXT: kerf-add-optimizer{{.*}}optimizer=sgd
// PASSES-NEXT: canonicalize{{.*}},
// PASSES-NEXT: cse,
// PASSES-NEXT: kerf-insert-reshards,
// PASSES-NEXT: kerf-partition,
// PASSES-NEXT: cse,
// PASSES-NEXT: kerf-convert-once,
// PASSES-NEXT: kerf-quantize-once,
// PASSES-NEXT: kerf-pad-classes,
// PASSES-NEXT: kerf-compress-gradients{ranks-of-node=1},
// PASSES-NEXT: kerf-schedule-collectives{all=false tensor=false},
// PASSES-NEXT: kerf-expand-maps,
// PASSES-NEXT: kerf-fuse-rows
// PASSES-NEXT: kerf-fuse-pointwise
// PASSES-NEXT: {{^}})

// TASKS: kerf-insert-reshards,
// TASKS-NEXT: kerf-partition,
// TASKS-NEXT: cse,
// TASKS-NEXT: kerf-convert-once,
// TASKS-NEXT: kerf-quantize-once,
// TASKS-NEXT: kerf-pad-classes,
// TASKS-NEXT: kerf-chunk-products,
// TASKS-NEXT: kerf-compress-gradients{ranks-of-node=1},
// TASKS-NEXT: kerf-schedule-collectives{all=true tensor=false},
// TASKS-NEXT: kerf-recompute,
// TASKS-NEXT: cse,
// TASKS-NEXT: kerf-split-backward,
// TASKS-NEXT: kerf-offload-activations,
// TASKS-NEXT: kerf-assign-tasks{chunks=1 split-backward=true}
// TASKS-NEXT: {{^}})

// CHECK: func.func private @fused_tanh_multiply(
// CHECK: func.func @main(
// CHECK: kerf.call @fused_tanh_multiply(
// CHECK: kerf.reduce_scatter {{.*}}cause = "gradient of w"
// CHECK: kerf.call @fused_{{.*}}kerf.update = "w"
// CHECK: kerf.all_gather
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
