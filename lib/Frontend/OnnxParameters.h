// SPDX-License-Identifier: Apache-2.0
// Which initializers of an ONNX graph are parameters, which of them are trained, and which parameters of the original
// module are not in the graph any more.
#pragma once

#include "OnnxFile.h"
#include "kerf/Frontend/Import.h"
#include <optional>
#include <set>

namespace kerf::frontend {

enum class InitializerRole { Constant, Buffer, FrozenParameter, TrainedParameter };

/// One role for each initializer, in order. An error for a glob that matches none.
Result<std::vector<InitializerRole>> initializerRoles(const OnnxFile &file, const ImportOptions &options);

/// The parameter that `copy` is the transpose of, or null: an optimizer of the exporter wrote the copy for a product,
/// and something else reads the parameter (a head tied to its embedding).
const Initializer *transposedOf(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                                const Initializer &copy);

/// The row of a table that a look-up of it does not train (PyTorch's padding_idx, as its newer exporter records it), if
/// that row is zeros.
std::optional<int64_t> untrainedRow(const OnnxFile &file, const onnx::NodeProto &node);

/// Messages that name parameters which an exporter folded, merged or transposed into constants, and large constants
/// that look like weights. `needed`: the indices of the nodes that the loss depends on.
std::vector<std::string> parameterWarnings(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                                           const std::vector<int> &needed);

/// The module path of a node ("transformer.h.0.attn.c_attn"), as the exporter recorded it, or "".
std::string moduleOf(const onnx::NodeProto &node);

} // namespace kerf::frontend
