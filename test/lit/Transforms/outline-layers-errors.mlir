// RUN: kerf-opt %s -split-input-file -kerf-outline-layers -verify-diagnostics

// expected-error @below {{no function @main with one block; import a model first}}
module {
  func.func @a_module_without_a_model() { return }
}
