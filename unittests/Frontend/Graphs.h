// SPDX-License-Identifier: Apache-2.0
// Helpers of tests that build small ONNX graphs and import them through a file, as a user would.
#pragma once

#include "Common/TermBuilder.h"
#include "kerf/Frontend/Import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "onnx.pb.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace kerf {

/// A temporary folder that is deleted with this object.
struct TemporaryFolder {
  std::filesystem::path path;
  TemporaryFolder() {
    static int count = 0;
    path = std::filesystem::temp_directory_path() /
           ("kerf-frontend-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
};

/// Returns ONNX's number of the element type T.
template <typename T> constexpr int onnxType() {
  using P = onnx::TensorProto;
  if constexpr (std::is_same_v<T, float>)
    return P::FLOAT;
  else if constexpr (std::is_same_v<T, double>)
    return P::DOUBLE;
  else if constexpr (std::is_same_v<T, int64_t>)
    return P::INT64;
  else
    return P::BOOL;
}

/// Builds an ONNX model. Functions that add a value return its name.
struct Graph {
  onnx::ModelProto model;
  onnx::GraphProto *graph;
  int count = 0;

  explicit Graph(int64_t opset = 20) {
    model.set_ir_version(10);
    model.add_opset_import()->set_version(opset);
    graph = model.mutable_graph();
  }

  Graph(const Graph &other) : model(other.model), graph(model.mutable_graph()), count(other.count) {}

  static void setType(onnx::ValueInfoProto *info, const std::string &name, int type, const Shape &shape) {
    info->set_name(name);
    auto *tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (int64_t size : shape)
      tensor->mutable_shape()->add_dim()->set_dim_value(size);
  }
  std::string input(const std::string &name, const Shape &shape, int type = onnx::TensorProto::FLOAT) {
    setType(graph->add_input(), name, type, shape);
    return name;
  }
  void output(const std::string &name, const Shape &shape = {}, int type = onnx::TensorProto::FLOAT) {
    setType(graph->add_output(), name, type, shape);
  }

  template <typename T> static void fill(onnx::TensorProto *tensor, const Shape &shape, const std::vector<T> &values) {
    for (int64_t size : shape)
      tensor->add_dims(size);
    tensor->set_data_type(onnxType<T>());
    std::string raw;
    for (T value : values)
      raw.append(reinterpret_cast<const char *>(&value), sizeof(T));
    tensor->set_raw_data(raw);
  }
  template <typename T> std::string constant(const Shape &shape, const std::vector<T> &values, std::string name = "") {
    onnx::TensorProto *tensor = graph->add_initializer();
    if (name.empty())
      name = "val_" + std::to_string(count++);
    fill(tensor, shape, values);
    tensor->set_name(name);
    return name;
  }
  std::string integers(const std::vector<int64_t> &values) {
    return constant<int64_t>({int64_t(values.size())}, values);
  }
  std::string parameter(const std::string &name, const Shape &shape) {
    std::vector<float> values(elementsOf(shape));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = float(i % 7) - 3;
    return constant<float>(shape, values, name);
  }

  onnx::NodeProto *node(const std::string &op, const std::vector<std::string> &inputs,
                        const std::vector<std::string> &outputs) {
    onnx::NodeProto *proto = graph->add_node();
    proto->set_op_type(op);
    proto->set_name("node_" + outputs.front());
    for (const std::string &name : inputs)
      proto->add_input(name);
    for (const std::string &name : outputs)
      proto->add_output(name);
    return proto;
  }
  std::string op(const std::string &type, const std::vector<std::string> &inputs,
                 std::map<std::string, int64_t> attributes = {}, std::string name = "") {
    if (name.empty())
      name = "t" + std::to_string(count++);
    onnx::NodeProto *proto = node(type, inputs, {name});
    for (const auto &[key, value] : attributes)
      setInt(proto, key, value);
    return name;
  }
  static void setInt(onnx::NodeProto *proto, const std::string &key, int64_t value) {
    onnx::AttributeProto *attribute = proto->add_attribute();
    attribute->set_name(key);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
  }
  static void setInts(onnx::NodeProto *proto, const std::string &key, const std::vector<int64_t> &values) {
    onnx::AttributeProto *attribute = proto->add_attribute();
    attribute->set_name(key);
    attribute->set_type(onnx::AttributeProto::INTS);
    for (int64_t value : values)
      attribute->add_ints(value);
  }
  static void setText(onnx::NodeProto *proto, const std::string &key, const std::string &value) {
    onnx::AttributeProto *attribute = proto->add_attribute();
    attribute->set_name(key);
    attribute->set_type(onnx::AttributeProto::STRING);
    attribute->set_s(value);
  }
  /// Makes the sum of all elements of `value` the loss.
  void sumIsLoss(const std::string &value) {
    op("ReduceSum", {value}, {{"keepdims", 0}}, "loss");
    output("loss");
  }

  std::string write(const std::filesystem::path &folder, const std::string &name = "model.onnx") const {
    std::string path = (folder / name).string();
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    return path;
  }
};

/// An imported model, or the error of the import.
struct Imported {
  std::unique_ptr<mlir::MLIRContext> context = std::make_unique<mlir::MLIRContext>();
  Result<ImportedModel> model = Error{"not imported"};

  mlir::func::FuncOp function() { return model->module->lookupSymbol<mlir::func::FuncOp>("main"); }
  template <typename Op> std::vector<Op> ops() {
    std::vector<Op> found;
    function().walk([&](Op op) { found.push_back(op); });
    return found;
  }
  /// Returns the names of the arguments of one kind, in order; trained arguments end with "*".
  std::vector<std::string> arguments(const std::string &kind) {
    std::vector<std::string> names;
    for (unsigned i = 0; i < function().getNumArguments(); ++i)
      if (function().getArgAttrOfType<mlir::StringAttr>(i, "kerf.kind").str() == kind)
        names.push_back(function().getArgAttrOfType<mlir::StringAttr>(i, "kerf.name").str() +
                        (function().getArgAttr(i, "kerf.trainable") ? "*" : ""));
    return names;
  }
  std::string text() const {
    std::string result;
    llvm::raw_string_ostream stream(result);
    model->module.get().print(stream);
    return result;
  }
};

inline Imported importFile(const std::string &path, const ImportOptions &options = {}) {
  Imported result;
  result.model = importModel(*result.context, path, options);
  return result;
}

/// Imports the file with each byte damaged in three ways. The test only expects that every import ends.
inline void importDamaged(const std::string &bytes) {
  TemporaryFolder folder;
  std::string path = (folder.path / "damaged.onnx").string();
  for (size_t at = 0; at < bytes.size(); ++at)
    for (int bit : {1, 16, 128}) {
      std::string damaged = bytes;
      damaged[at] = char(damaged[at] ^ bit);
      std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
      (void)importFile(path);
    }
}

inline Imported importGraph(const Graph &graph, const ImportOptions &options = {}) {
  TemporaryFolder folder;
  return importFile(graph.write(folder.path), options);
}

/// Expects that the folded constant `name`, broadcast to `shape`, has the elements `expected`.
template <typename T>
void expectFolded(const Graph &given, const std::string &name, const Shape &shape, const std::vector<T> &expected) {
  Graph graph = given; // copied here, because the other arguments of the call may add nodes to the original
  // Adding the constant to an input, x + cast(constant), makes it part of the IR.
  std::string x = graph.input("x", shape);
  std::string asFloat = graph.op("Cast", {name}, {{"to", onnx::TensorProto::FLOAT}});
  graph.sumIsLoss(graph.op("Add", {x, asFloat}));
  Imported result = importGraph(graph);
  ASSERT_TRUE(bool(result.model)) << result.model.error().message;
  std::vector<ir::AddOp> adds = result.ops<ir::AddOp>();
  bool allZero = std::all_of(expected.begin(), expected.end(), [](T value) { return value == T(0); });
  if (allZero) {
    EXPECT_TRUE(adds.empty()) << "adding zeros needs no operator";
    return;
  }
  ASSERT_EQ(adds.size(), 1u) << result.text();
  mlir::Value operand = adds[0].getRhs();
  std::vector<int64_t> dims(shape.size());
  for (size_t d = 0; d < dims.size(); ++d)
    dims[d] = int64_t(d);
  if (auto broadcast = operand.getDefiningOp<ir::BroadcastInDimOp>()) {
    dims.assign(broadcast.getBroadcastDimensions().begin(), broadcast.getBroadcastDimensions().end());
    operand = broadcast.getOperand();
  }
  auto constant = operand.getDefiningOp<ir::ConstantOp>();
  ASSERT_TRUE(constant) << result.text();
  auto values = mlir::cast<mlir::DenseElementsAttr>(constant.getValue());
  Shape held = ir::shapeOf(operand);
  std::vector<float> all(values.getValues<float>().begin(), values.getValues<float>().end());
  std::vector<T> got;
  for (int64_t i = 0; i < elementsOf(shape); ++i) {
    std::vector<int64_t> at(shape.size());
    for (int64_t d = int64_t(shape.size()) - 1, rest = i; d >= 0; rest /= shape[d], --d)
      at[d] = rest % shape[d];
    int64_t offset = 0;
    for (size_t d = 0; d < held.size(); ++d)
      offset = offset * held[d] + (held[d] == 1 ? 0 : at[dims[d]]);
    got.push_back(T(all[offset]));
  }
  EXPECT_EQ(got, expected);
}

inline std::string errorOf(const Imported &result) {
  return result.model ? std::string() : result.model.error().message;
}

inline void expectError(const Imported &imported, const std::vector<std::string> &parts) {
  ASSERT_FALSE(bool(imported.model));
  EXPECT_EQ(imported.model.error().status, ExitStatus::BadInput);
  for (const std::string &part : parts)
    EXPECT_NE(imported.model.error().message.find(part), std::string::npos)
        << "no '" << part << "' in: " << imported.model.error().message;
}

} // namespace kerf
