// SPDX-License-Identifier: Apache-2.0
// What PyTorch's newer exporter writes into an ONNX file beside the graph: the signature of the exported program, and
// for each node the module and the call of PyTorch that it comes from. All of it is text; what is absent reads as
// empty.
#pragma once

#include "Onnx/OnnxFile.h"
#include <optional>
#include <set>

namespace kerf::frontend {

/// The words of a list that Python printed: ['', 'transformer', 'view'].
std::vector<std::string> listWords(std::string_view text);

/// A tensor of the module in the signature: the line "p_fc_weight: PARAMETER target='fc.weight'".
struct SignatureEntry {
  std::string variable; // "p_fc_weight", by which calls name it
  std::string target;   // "fc.weight"
};
/// The parameters of the module in its order, those that the graph does not hold included.
std::vector<SignatureEntry> signatureParameters(const OnnxFile &file);
/// The buffers that one call of the module changes: the running statistics of batch normalization in training mode.
std::vector<std::string> mutatedBuffers(const OnnxFile &file);

/// The tensors that one call of the module changes, whatever they are: buffers and parameters.
std::vector<std::string> mutatedTensors(const OnnxFile &file);

/// The module path of a node ("transformer.h.0.attn.c_attn"), or "".
std::string moduleOf(const onnx::NodeProto &node);
/// The classes of the modules around a node, the outermost first, and its call as the last word.
std::vector<std::string> classesOf(const onnx::NodeProto &node);

/// The call that a node comes from: "%mul : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor](args =
/// ...".
std::string callOf(const onnx::NodeProto &node);
/// Argument `index`, or the keyword argument `keyword`, of a call of `function` ("aten.embedding.default"), as its
/// text; nothing where the call is of something else or leaves the argument out.
std::optional<std::string> callArgument(const std::string &call, std::string_view function, size_t index,
                                        std::string_view keyword);
/// The variables that the calls of all nodes read ("p_fc_weight"). Empty: the file does not say its calls.
std::set<std::string> variablesOfCalls(const OnnxFile &file);

} // namespace kerf::frontend
