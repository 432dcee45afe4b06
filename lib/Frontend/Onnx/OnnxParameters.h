// SPDX-License-Identifier: Apache-2.0
// Determines which initializers of an ONNX graph are parameters, which parameters are trained, and which parameters of
// the original module the graph lacks.
#pragma once

#include "Onnx/OnnxFile.h"
#include "kerf/Frontend/Import.h"
#include <optional>
#include <set>

namespace kerf::frontend {

/// The role of an initializer in training.
enum class InitializerRole { Constant, Buffer, FrozenParameter, TrainedParameter };

/// Returns the role of each initializer, in order. Fails for a glob pattern of the options that matches none.
Result<std::vector<InitializerRole>> initializerRoles(const OnnxFile &file, const ImportOptions &options);

/// Returns the parameter whose transpose is `copy`, or null. The exporter's optimizer writes such a copy for a matrix
/// product while other nodes still read the parameter, as for a head tied to its embedding.
const Initializer *parameterTransposedTo(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                                         const Initializer &copy);

/// Returns the row of an embedding table that the lookup `node` does not train (padding_idx, as PyTorch's newer
/// exporter records it), if that row is zero. Returns nothing otherwise.
std::optional<int64_t> untrainedRow(const OnnxFile &file, const onnx::NodeProto &node);

/// Returns whether the exporter marks each initializer as a parameter or not.
bool exporterMarksParameters(const OnnxFile &file);

/// Returns the names of weights of linear layers that the exporter transposed and renamed. Each is a matrix, the only
/// constant computed from a parameter that the graph lacks, and read only as the right operand of matrix products.
/// Training it is equivalent to training the parameter.
std::set<std::string> transposedWeights(const OnnxFile &file);

/// The parameters of the original module that the graph does not hold under their names.
struct LostParameters {
  size_t parameters = 0;               // number of parameters of the module, as far as the file says
  std::vector<std::string> folded;     // folded into constants that are not trained, or merged with other parameters
  std::vector<std::string> trainedAs;  // folded into constants that --trainable names, and so trained with these
  std::vector<std::string> transposed; // transposed by the exporter, and trained under another name
  std::vector<std::string> unread;     // read by no node, because the module does not use them
  std::set<std::string> constants;     // the initializers that the lists above refer to
};
/// Finds the parameters that the graph lacks. `needed` has the indices of the nodes on which the loss depends.
LostParameters lostParameters(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                              const std::vector<int> &needed);

/// Returns warnings that name the lost parameters, and large constants that look like weights.
std::vector<std::string> parameterWarnings(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                                           const std::vector<int> &needed, const LostParameters &lost);

/// Returns warnings on differences between the exported graph and the original module, as far as the file shows them:
/// missing batch statistics, label smoothing or dropout, and tensors that are trained although the module may not train
/// them.
std::vector<std::string> differenceWarnings(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                                            const std::vector<int> &needed);

} // namespace kerf::frontend
