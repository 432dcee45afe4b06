// SPDX-License-Identifier: Apache-2.0
// Reads signature.json, which lies beside StableHLO text and has the names that JAX leaves out of the text.
//
//   {"loss.mlir": {"arguments": [{"name": "params.w", "shape": [8, 8], "aliases_result": null}, ...],
//                  "results": [{"name": "loss"}]}}
#pragma once

#include "kerf/Frontend/ModelSource.h"
#include "kerf/Package/Package.h"

#include <optional>

namespace kerf::frontend::hlo {

/// An argument of the function in the signature.
struct NamedArgument {
  std::string name;
  std::optional<Shape> shape;           // absent: the signature does not say
  std::optional<int64_t> aliasesResult; // index of the result that replaces the argument after a step; absent: none
  std::vector<std::string>
      stackOf; // names of tensors in the weights file that are stacked along a new first dimension; empty: one tensor
};

/// The names of the arguments and results of one function.
struct Signature {
  std::vector<NamedArgument> arguments;
  std::vector<std::string> results;
};

/// Returns the model's entry in the signature.json beside it, or the signature in `source`; nothing when there is
/// neither. Fails for malformed JSON, or when the file has no entry for the model.
Result<std::optional<Signature>> readSignature(const ModelSource &source);

} // namespace kerf::frontend::hlo
