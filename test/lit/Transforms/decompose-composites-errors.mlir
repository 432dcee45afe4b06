// RUN: kerf-opt %s -split-input-file -kerf-decompose-composites=all -verify-diagnostics

func.func @an_embedding_that_is_partitioned_already(%t: tensor<25x8xf32>, %i: tensor<4xi64>) -> tensor<4x8xf32> {
  %o = kerf.shard_offset {axes = array<i64: 0, 1, 4>, chunk = 25 : i64} : () -> tensor<i64>
  // expected-error @below {{has an offset already; run kerf-decompose-composites before kerf-partition}}
  %y = kerf.embedding %t, %i, %o {rows = 97 : i64} : (tensor<25x8xf32>, tensor<4xi64>, tensor<i64>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
