// SPDX-License-Identifier: Apache-2.0
// signature.json beside StableHLO text: the names that JAX leaves out of it.
//
//   {"loss.mlir": {"arguments": [{"name": "params.w", "shape": [8, 8], "aliases_result": null}, ...],
//                  "results": [{"name": "loss"}]}}
#pragma once

#include "kerf/Frontend/ModelSource.h"
#include "kerf/Package/Package.h"

#include <optional>

namespace kerf::frontend::hlo {

struct NamedArgument {
  std::string name;
  std::optional<Shape> shape;
  std::optional<int64_t> aliasesResult; // the result that replaces it after a step
  std::vector<std::string> stackOf;     // it is these tensors of the weights file, stacked along a new first dimension
};

struct Signature {
  std::vector<NamedArgument> arguments;
  std::vector<std::string> results;
};

/// The model's entry in the signature.json beside it, or its own signature; nothing where there is neither.
Result<std::optional<Signature>> readSignature(const ModelSource &source);

} // namespace kerf::frontend::hlo
