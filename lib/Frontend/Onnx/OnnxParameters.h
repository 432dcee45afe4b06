// SPDX-License-Identifier: Apache-2.0
// Which initializers of an ONNX graph are parameters, which of them are trained, and which parameters of the original
// module are not in the graph any more.
#pragma once

#include "Onnx/OnnxFile.h"
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

/// The exporter says of each initializer whether it is a parameter.
bool hasKinds(const OnnxFile &file);

/// Weights of linear layers that the exporter transposed and gave a name of its own: each is a matrix, the only
/// constant made of a parameter that is gone, and products alone read it, on their right. To train it is to train the
/// parameter.
std::set<std::string> transposedWeights(const OnnxFile &file);

/// What became of the parameters that the module had and the graph does not hold under their names.
struct LostParameters {
  size_t parameters = 0;               // of the module, as far as the file tells
  std::vector<std::string> folded;     // into constants that are not trained, or merged with others
  std::vector<std::string> trainedAs;  // constants made of them, because --trainable names these
  std::vector<std::string> transposed; // and trained by another name
  std::vector<std::string> unread;     // by every node: unused in the module
  std::set<std::string> constants;     // the initializers that the lists speak of
};
/// `needed`: the indices of the nodes that the loss depends on.
LostParameters lostParameters(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                              const std::vector<int> &needed);

/// Messages that name these parameters, and large constants that look like weights.
std::vector<std::string> parameterWarnings(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                                           const std::vector<int> &needed, const LostParameters &lost);

/// Messages about what the exporter left out of the module, as far as the file tells: statistics of the batch, label
/// smoothing, dropout; and about tensors that may be trained though the module does not train them.
std::vector<std::string> differenceWarnings(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                                            const std::vector<int> &needed);

} // namespace kerf::frontend
