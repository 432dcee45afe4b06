// SPDX-License-Identifier: Apache-2.0
// Finds the nodes of an ONNX graph that its loss and its metrics depend on, from the file alone.
#pragma once

#include "Common/LossRequest.h"
#include "Onnx/OnnxFile.h"
#include "Onnx/OnnxParameters.h"
#include <optional>
#include <unordered_map>

namespace kerf::frontend {

struct NeededNodes {
  std::unordered_map<std::string, int> producers; // value -> node
  LossRequest loss;
  std::vector<int> nodes; // in the file's order
};
/// `loss`: what the user asked for, or "": an output named "loss", else the first that is a floating scalar. `metrics`:
/// other values that are needed. Errors: a name that two values have, a loss or a metric that no node makes.
Result<NeededNodes> findNeeded(const OnnxFile &file, const std::string &loss, const std::vector<std::string> &metrics);

/// Why the node's operator is not read ("": Kerf does not know it), or nothing.
std::optional<std::string> whyRefused(const onnx::NodeProto &node, int64_t opset);
/// One message for all operators that Kerf cannot read; those of subgraphs are looked at when they are written out.
Status checkOperators(const OnnxFile &file, const std::vector<InitializerRole> &roles, const std::vector<int> &needed);

/// The node's name, or its operator and number.
std::string nodeName(const onnx::NodeProto &node, int index);

/// The values that a node reads, those from outside of its subgraphs among them.
template <typename F> void forReads(const onnx::NodeProto &node, const F &read) {
  for (const std::string &input : node.input())
    read(input);
  for (const onnx::AttributeProto &attribute : node.attribute()) {
    if (!attribute.has_g())
      continue;
    for (const onnx::NodeProto &inner : attribute.g().node())
      forReads(inner, read);
    for (const onnx::ValueInfoProto &output : attribute.g().output())
      read(output.name());
  }
}

} // namespace kerf::frontend
