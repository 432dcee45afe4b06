// SPDX-License-Identifier: Apache-2.0
// Mutates ONNX graphs: nodes, their operands and attributes, shapes and constants; crosses a graph with
// nodes of another.
#include "onnx.pb.h"

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t most);

namespace {
using namespace kerf::onnx;

struct Chance {
  std::minstd_rand engine;
  size_t below(size_t count) { return count ? engine() % count : 0; }
  int64_t number() {
    constexpr int64_t kNumbers[] = {
        0, 1, -1, 2, -2, 3, 4, 5, 7, 8, 16, 100, 1 << 20, INT32_MAX, int64_t(1) << 40, INT64_MAX, INT64_MIN};
    return kNumbers[below(std::size(kNumbers))];
  }
};

/// Returns a random entry of `list`, which must not be empty.
template <typename List> auto &any(List &list, Chance &chance) {
  return *list.Mutable(int(chance.below(size_t(list.size()))));
}

std::vector<std::string> valuesOf(const GraphProto &graph) {
  std::vector<std::string> names = {""};
  for (const TensorProto &tensor : graph.initializer())
    names.push_back(tensor.name());
  for (const ValueInfoProto &input : graph.input())
    names.push_back(input.name());
  for (const NodeProto &node : graph.node())
    names.insert(names.end(), node.output().begin(), node.output().end());
  return names;
}

void changeTensor(TensorProto &tensor, Chance &chance) {
  std::string &raw = *tensor.mutable_raw_data();
  switch (chance.below(5)) {
  case 0:
    tensor.set_data_type(int(chance.below(27)));
    return;
  case 1:
    if (tensor.dims_size())
      tensor.set_dims(int(chance.below(size_t(tensor.dims_size()))), chance.number());
    return;
  case 2:
    if (tensor.dims_size() > 1)
      tensor.mutable_dims()->SwapElements(0, int(chance.below(size_t(tensor.dims_size()))));
    return;
  default:
    if (raw.size() >= 8) {
      int64_t number = chance.number();
      std::memcpy(raw.data() + chance.below(raw.size() / 8) * 8, &number, 8);
    }
  }
}

void changeAttribute(NodeProto &node, Chance &chance) {
  if (node.attribute_size() == 0)
    return;
  AttributeProto &attribute = any(*node.mutable_attribute(), chance);
  switch (chance.below(8)) {
  case 0:
    node.mutable_attribute()->DeleteSubrange(int(chance.below(size_t(node.attribute_size()))), 1);
    return;
  case 1:
    attribute.set_type(int(chance.below(9)));
    return;
  case 2:
    attribute.add_ints(chance.number());
    return;
  case 3:
    attribute.set_f(float(chance.number()));
    return;
  default:
    if (attribute.has_t())
      changeTensor(*attribute.mutable_t(), chance);
    else if (attribute.ints_size() && chance.below(4) == 0)
      attribute.mutable_ints()->RemoveLast();
    else if (attribute.ints_size())
      attribute.set_ints(int(chance.below(size_t(attribute.ints_size()))), chance.number());
    else
      attribute.set_i(chance.number());
  }
}

void changeNode(GraphProto &graph, Chance &chance) {
  if (graph.node_size() == 0)
    return;
  NodeProto &node = any(*graph.mutable_node(), chance);
  const NodeProto other = any(*graph.mutable_node(), chance);
  std::vector<std::string> names = valuesOf(graph);
  const std::string &name = names[chance.below(names.size())];
  switch (chance.below(10)) {
  case 0:
    node.set_op_type(other.op_type());
    return;
  case 1: // attributes of another operator
    *node.mutable_attribute() = other.attribute();
    return;
  case 2:
    node.add_input(name);
    return;
  case 3:
    if (node.input_size())
      node.mutable_input()->RemoveLast();
    return;
  case 4:
    node.add_output("extra");
    return;
  case 5:
    graph.mutable_node()->DeleteSubrange(int(chance.below(size_t(graph.node_size()))), 1);
    return;
  case 6:
  case 7:
    changeAttribute(node, chance);
    return;
  default:
    if (node.input_size())
      *node.mutable_input(int(chance.below(size_t(node.input_size())))) = name;
  }
}

void change(ModelProto &model, Chance &chance) {
  GraphProto &graph = *model.mutable_graph();
  switch (chance.below(8)) {
  case 0:
    if (graph.initializer_size())
      changeTensor(any(*graph.mutable_initializer(), chance), chance);
    return;
  case 1:
    if (model.opset_import_size())
      any(*model.mutable_opset_import(), chance).set_version(int64_t(11 + chance.below(16)));
    return;
  case 2:
    if (graph.input_size()) {
      auto &type = *any(*graph.mutable_input(), chance).mutable_type()->mutable_tensor_type();
      if (type.shape().dim_size() && chance.below(3))
        any(*type.mutable_shape()->mutable_dim(), chance).set_dim_value(chance.number());
      else
        type.set_elem_type(int(chance.below(27)));
    }
    return;
  default:
    changeNode(graph, chance);
  }
}

size_t write(const ModelProto &model, uint8_t *data, size_t most) {
  std::string bytes = model.SerializeAsString();
  if (bytes.size() > most)
    return 0;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed) {
  Chance chance{std::minstd_rand(seed)};
  ModelProto model;
  if (chance.below(8) == 0 || !model.ParseFromArray(data, int(bytes)))
    return LLVMFuzzerMutate(data, bytes, most);
  for (size_t i = 0, changes = 1 + chance.below(4); i < changes; ++i)
    change(model, chance);
  size_t written = write(model, data, most);
  return written ? written : LLVMFuzzerMutate(data, bytes, most);
}

/// Returns the first graph with a node of the second graph added, which reads values of the first graph.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *first, size_t firstBytes, const uint8_t *second,
                                            size_t secondBytes, uint8_t *data, size_t most, unsigned seed) {
  Chance chance{std::minstd_rand(seed)};
  ModelProto model, other;
  if (!model.ParseFromArray(first, int(firstBytes)) || !other.ParseFromArray(second, int(secondBytes)) ||
      !other.graph().node_size() || !model.graph().node_size())
    return 0;
  std::vector<std::string> names = valuesOf(model.graph());
  NodeProto node = any(*other.mutable_graph()->mutable_node(), chance);
  for (std::string &input : *node.mutable_input()) {
    bool constant = false; // shapes and axes, which keep their values
    for (const TensorProto &tensor : other.graph().initializer())
      if (tensor.name() == input && tensor.raw_data().size() <= 64) {
        *model.mutable_graph()->add_initializer() = tensor;
        constant = true;
      }
    if (!constant)
      input = names[chance.below(names.size())];
  }
  // Replaces a node: its readers then read the new node.
  NodeProto &place = any(*model.mutable_graph()->mutable_node(), chance);
  *node.mutable_output() = place.output();
  place = node;
  return write(model, data, most);
}
