// SPDX-License-Identifier: Apache-2.0
// Finds the nodes of an ONNX graph on which the loss and the metrics depend.
#pragma once

#include "Common/LossRequest.h"
#include "Onnx/OnnxFile.h"
#include "Onnx/OnnxParameters.h"
#include <optional>
#include <unordered_map>

namespace kerf::frontend {

/// The nodes that an import needs.
struct NeededNodes {
  std::unordered_map<std::string, int> producers; // name of a value -> index of the node that computes it
  LossRequest loss;
  std::vector<int> nodes; // indices of the needed nodes, in the order of the file
};
/// Finds the needed nodes. `loss` is the loss that the user asked for, or "" for the output named "loss", or else the
/// first floating-point scalar output. `metrics` names further needed values. Fails when two values have one name, or
/// no node computes the loss or a metric.
Result<NeededNodes> findNeeded(const OnnxFile &file, const std::string &loss, const std::vector<std::string> &metrics);

/// Returns why the node's operator is not supported, "" for an unknown operator, or nothing if it is supported.
std::optional<std::string> whyRefused(const onnx::NodeProto &node, int64_t opset);
/// Fails with one message on all needed operators that are not supported. Operators of subgraphs are checked later,
/// when the subgraph is imported.
Status checkOperators(const OnnxFile &file, const std::vector<InitializerRole> &roles, const std::vector<int> &needed);

/// Returns the name of the node, or its operator and index ("MatMul_7") if it has none.
std::string nodeName(const onnx::NodeProto &node, int index);

/// Calls `read` with the name of each value that the node reads, including values that its subgraphs read.
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
