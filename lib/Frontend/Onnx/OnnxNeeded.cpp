// SPDX-License-Identifier: Apache-2.0
#include "Onnx/OnnxNeeded.h"
#include "Common/WayOut.h"
#include "Onnx/OnnxNode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

namespace kerf::frontend {

static std::string nameOf(const OnnxFile &file, int index) { return nodeName(file.model->graph().node(index), index); }

std::string nodeName(const onnx::NodeProto &node, int index) {
  return node.name().empty() ? fmt::format("{}_{}", node.op_type(), index) : node.name();
}

/// Finds the node that computes each value. Fails when two values have one name.
static Status findProducers(const OnnxFile &file, std::unordered_map<std::string, int> &producers) {
  const onnx::GraphProto &graph = file.model->graph();
  std::set<std::string> inputs;
  for (const onnx::ValueInfoProto &input : graph.input())
    if (input.name().empty() || !inputs.insert(input.name()).second)
      return Error{fmt::format("two inputs are called '{}'; {}", input.name(), kExportAgain)};
  for (int i = 0; i < graph.node_size(); ++i)
    for (const std::string &output : graph.node(i).output()) {
      if (output.empty())
        continue;
      auto [it, fresh] = producers.emplace(output, i);
      if (!fresh)
        return Error{fmt::format("value '{}' is computed by two nodes, '{}' and '{}'; {}", output,
                                 nameOf(file, it->second), nameOf(file, i), kExportAgain)};
      if (inputs.count(output) || file.find(output))
        return Error{fmt::format("value '{}' is computed by node '{}' and is also an {}; {}", output, nameOf(file, i),
                                 inputs.count(output) ? "input" : "initializer", kExportAgain)};
    }
  return ok();
}

static Result<LossRequest> chooseLoss(const OnnxFile &file, const std::string &asked,
                                      const std::unordered_map<std::string, int> &producers) {
  const onnx::GraphProto &graph = file.model->graph();
  std::vector<std::string> outputs;
  for (const onnx::ValueInfoProto &output : graph.output())
    outputs.push_back(output.name());
  if (!asked.empty()) {
    KERF_TRY(request, parseLoss(asked));
    if (!producers.count(request.value))
      return Error{fmt::format("the loss '{}' names '{}', which no node computes; the outputs are: {}", asked,
                               request.value, fmt::join(outputs, ", "))};
    if (!request.labels.empty() && producers.count(request.labels))
      return Error{fmt::format("the loss '{}' names the labels '{}', which are not an input, but computed by node "
                               "'{}'; name an input, or a new name, which becomes an input",
                               asked, request.labels, nameOf(file, producers.at(request.labels)))};
    return request;
  }
  auto isScalar = [](const onnx::ValueInfoProto &output) {
    const onnx::TypeProto::Tensor &type = output.type().tensor_type();
    Result<DType> dtype = dtypeFromOnnx(type.elem_type());
    return dtype && isFloat(*dtype) && type.has_shape() && type.shape().dim_size() == 0;
  };
  for (bool byName : {true, false})
    for (const onnx::ValueInfoProto &output : graph.output()) {
      if (!isScalar(output) || (byName && output.name() != "loss"))
        continue;
      if (!producers.count(output.name()))
        return Error{fmt::format("no node computes the output '{}'; {}", output.name(), kExportAgain)};
      return LossRequest{output.name(), ""};
    }
  return Error{
      fmt::format("none of the outputs ({}) is a floating scalar; name the loss with <loss> NAME, or build one with "
                  "<loss> \"cross_entropy(LOGITS, LABELS)\"",
                  fmt::join(outputs, ", "))};
}

Result<NeededNodes> findNeeded(const OnnxFile &file, const std::string &loss, const std::vector<std::string> &metrics) {
  const onnx::GraphProto &graph = file.model->graph();
  NeededNodes found;
  KERF_CHECK(findProducers(file, found.producers));
  KERF_TRY(chosen, chooseLoss(file, loss, found.producers));
  found.loss = std::move(chosen);
  std::vector<bool> seen(graph.node_size());
  std::vector<int> open{found.producers.at(found.loss.value)};
  for (const std::string &metric : metrics) {
    auto producer = found.producers.find(metric);
    if (producer == found.producers.end()) {
      std::vector<std::string> outputs;
      for (const onnx::ValueInfoProto &output : graph.output())
        outputs.push_back(output.name());
      return Error{fmt::format("the metric '{}' is not a value that a node computes; the outputs are: {}", metric,
                               fmt::join(outputs, ", "))};
    }
    open.push_back(producer->second);
  }
  for (int index : open)
    seen[index] = true;
  while (!open.empty()) {
    int index = open.back();
    open.pop_back();
    forReads(graph.node(index), [&](const std::string &input) {
      auto it = found.producers.find(input);
      if (it == found.producers.end() || seen[it->second])
        return;
      seen[it->second] = true;
      open.push_back(it->second);
    });
  }
  for (int i = 0; i < graph.node_size(); ++i)
    if (seen[i])
      found.nodes.push_back(i);
  return found;
}

std::optional<std::string> whyRefused(const onnx::NodeProto &node, int64_t opset) {
  if (!node.domain().empty() && node.domain() != "ai.onnx")
    return fmt::format("domain {}", node.domain());
  const OnnxOperator *op = findOperator(node.op_type());
  if (op && (opset < op->minOpset || opset > op->maxOpset))
    return fmt::format("supported from opset {} to {}", op->minOpset, op->maxOpset);
  return op ? std::nullopt : std::optional(std::string());
}

Status checkOperators(const OnnxFile &file, const std::vector<InitializerRole> &roles, const std::vector<int> &needed) {
  struct Refused {
    std::string node, why;
    int count = 0;
  };
  std::map<std::string, Refused> refused;
  std::set<std::string> constant; // names of values that do not depend on inputs and parameters
  for (size_t i = 0; i < file.initializers.size(); ++i)
    if (roles[i] == InitializerRole::Constant || roles[i] == InitializerRole::Buffer)
      constant.insert(file.initializers[i].name);
  for (int index : needed) {
    const onnx::NodeProto &node = file.model->graph().node(index);
    bool isConstant = true;
    forReads(node, [&](const std::string &input) { isConstant &= input.empty() || constant.count(input); });
    std::optional<std::string> why = whyRefused(node, file.opset);
    if (!why && findOperator(node.op_type())->operands == OperandKinds::Constant && !isConstant)
      why = node.op_type() == "NonZero" ? "the number of elements that a computed mask selects is unknown at import; "
                                          "keep all elements and multiply by the mask, or use torch.where"
                                        : "supported for constants only";
    if (why) {
      Refused &entry = refused[node.op_type()];
      if (entry.count++ == 0) {
        entry.node = nodeName(node, index);
        entry.why = *why;
      }
    }
    if (isConstant || node.op_type() == "Shape" || node.op_type() == "Size")
      constant.insert(node.output().begin(), node.output().end());
  }
  if (refused.empty())
    return ok();
  std::vector<std::string> items;
  for (const auto &[name, entry] : refused)
    items.push_back(fmt::format("{} (opset {}; node '{}'{}{}{})", name, file.opset, entry.node,
                                entry.count > 1 ? fmt::format(" and {} more", entry.count - 1) : "",
                                entry.why.empty() ? "" : "; ", entry.why));
  bool one = items.size() == 1;
  return Error{fmt::format("{} operator{} of this model {} not supported: {}; write the module without {} and export "
                           "it again (docs/operators.md lists the supported operators)",
                           items.size(), one ? "" : "s", one ? "is" : "are", fmt::join(items, ", "),
                           one ? "it" : "them")};
}

} // namespace kerf::frontend
