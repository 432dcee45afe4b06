// SPDX-License-Identifier: Apache-2.0
// Reads attributes and operands of a node, and stores its results.
#include "Onnx/OnnxNode.h"
#include "Onnx/TorchMetadata.h"

#include <fmt/format.h>

namespace kerf::frontend {

const char *toString(GraphValueKind kind) {
  switch (kind) {
  case GraphValueKind::Tensor:
    return "a tensor";
  case GraphValueKind::Sequence:
    return "a sequence of tensors";
  case GraphValueKind::Nothing:
    return "an empty optional";
  case GraphValueKind::Texts:
    return "a tensor of texts";
  }
  return "";
}

const onnx::AttributeProto *OnnxNode::find(std::string_view name) const {
  for (const onnx::AttributeProto &attribute : proto.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

int64_t OnnxNode::integer(std::string_view name, int64_t fallback) const {
  const onnx::AttributeProto *attribute = find(name);
  return attribute ? attribute->i() : fallback;
}

double OnnxNode::number(std::string_view name, double fallback) const {
  const onnx::AttributeProto *attribute = find(name);
  return attribute ? attribute->f() : fallback;
}

std::string OnnxNode::text(std::string_view name, std::string fallback) const {
  const onnx::AttributeProto *attribute = find(name);
  return attribute ? attribute->s() : fallback;
}

std::vector<int64_t> OnnxNode::integers(std::string_view name) const {
  const onnx::AttributeProto *attribute = find(name);
  return attribute ? std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end()) : std::vector<int64_t>();
}

Result<std::vector<int64_t>> OnnxNode::constantInput(int i) const {
  const Term &term = input(i);
  if (!term.isConstant())
    return Error{
        fmt::format("operand {} ('{}') must be a constant, because shapes are static in Kerf", i, proto.input(i))};
  return integersOf(*term.literal);
}

Result<std::optional<std::vector<int64_t>>> OnnxNode::integersFrom(int i, std::string_view attribute) const {
  if (hasInput(i)) {
    Result<std::vector<int64_t>> values = constantInput(i);
    if (!values)
      return values.error();
    return std::optional(*values);
  }
  if (has(attribute))
    return std::optional(integers(attribute));
  return std::optional<std::vector<int64_t>>();
}

Status OnnxNode::set(int i, Term term) {
  KERF_CHECK(checkShape(term.shape));
  if (isOutputUsed(i))
    outputs[i] = GraphValue{{std::move(term)}};
  return ok();
}

Status OnnxNode::set(int i, Result<Term> term) {
  if (!term)
    return term.error();
  return set(i, std::move(*term));
}

Status OnnxNode::setSequence(int i, std::vector<Term> terms) {
  if (isOutputUsed(i))
    outputs[i] = GraphValue{std::move(terms), GraphValueKind::Sequence};
  return ok();
}

Status OnnxNode::setValue(int i, GraphValue entry) {
  if (entry.isTensor())
    return set(i, entry.terms.front());
  if (isOutputUsed(i))
    outputs[i] = std::move(entry);
  return ok();
}

Result<std::vector<GraphValue>> OnnxNode::writeSubgraph(std::string_view attribute,
                                                        const std::vector<GraphValue> &graphInputs) const {
  const onnx::AttributeProto *graph = find(attribute);
  if (!graph || !graph->has_g())
    return Error{fmt::format("it has no subgraph '{}'", attribute)};
  return subgraphWriter(graph->g(), graphInputs);
}

bool OnnxNode::isCallOf(std::string_view function) const {
  return callArgument(callOf(proto), function, 0, "self").has_value();
}

} // namespace kerf::frontend
