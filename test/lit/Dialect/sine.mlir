// RUN: kerf-opt %s -kerf-differentiate | FileCheck %s
// RUN: rm -rf %t && mkdir %t
// RUN: python3 -c "h = str({'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)}) + chr(10); open('%t/x.npy', 'wb').write(bytes([147]) + b'NUMPY' + bytes([1, 0, len(h), 0]) + h.encode() + bytes(32))"
// RUN: kerf train %s --data %t --ranks 2 --lr 1 --json | FileCheck %s --check-prefix=LOSS

// CHECK: kerf.sine %[[H:.*]] : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: %[[SLOPE:.*]] = kerf.cosine %[[H]] {kerf.backward}
// CHECK: kerf.multiply %{{.*}}, %[[SLOPE]] {kerf.backward}

// LOSS: "losses": [
// LOSS-NEXT: 0.0
// LOSS-NEXT: -3.36588
func.func @main(%x: tensor<4xf32> {kerf.kind = "input", kerf.name = "x"},
                %w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> (tensor<f32> {kerf.name = "loss"}) {
  %h = kerf.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = kerf.sine %h : (tensor<4xf32>) -> tensor<4xf32>
  %loss = kerf.reduce %y {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
