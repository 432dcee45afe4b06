// SPDX-License-Identifier: Apache-2.0
// Reads the metadata that PyTorch's newer exporter adds to an ONNX file: the signature of the exported program, and the
// module and the call of PyTorch from which each node comes. All metadata are text; missing metadata are read as empty.
#pragma once

#include "Onnx/OnnxFile.h"
#include <optional>
#include <set>

namespace kerf::frontend {

/// Returns the strings of a list that Python printed: ['', 'transformer', 'view'].
std::vector<std::string> listWords(std::string_view text);

/// A tensor of the module in the signature, as in the line "p_fc_weight: PARAMETER target='fc.weight'".
struct SignatureEntry {
  std::string variable; // name of the tensor in calls, "p_fc_weight"
  std::string target;   // name of the tensor in the module, "fc.weight"
};
/// Returns all parameters of the module in their order, including parameters that the graph lacks.
std::vector<SignatureEntry> signatureParameters(const OnnxFile &file);
/// Returns the buffers that one call of the module changes, such as the running statistics of batch normalization.
std::vector<std::string> mutatedBuffers(const OnnxFile &file);

/// Returns the buffers and parameters that one call of the module changes.
std::vector<std::string> mutatedTensors(const OnnxFile &file);

/// Returns the module path of a node, such as "transformer.h.0.attn.c_attn", or "".
std::string moduleOf(const onnx::NodeProto &node);
/// Returns the classes of the modules that contain a node, outermost first, followed by the name of its call.
std::vector<std::string> classesOf(const onnx::NodeProto &node);

/// Returns the call from which a node comes: "%mul : [num_users=1] =
/// call_function[target=torch.ops.aten.mul.Tensor](args =
/// ...".
std::string callOf(const onnx::NodeProto &node);
/// Returns the text of argument `index`, or of the keyword argument `keyword`, of a call of `function`
/// ("aten.embedding.default"). Returns nothing if `call` calls another function or lacks the argument.
std::optional<std::string> callArgument(const std::string &call, std::string_view function, size_t index,
                                        std::string_view keyword);
/// Returns the variables, such as "p_fc_weight", that the calls of all nodes read. Empty: the file has no calls.
std::set<std::string> variablesOfCalls(const OnnxFile &file);

} // namespace kerf::frontend
