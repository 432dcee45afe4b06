// SPDX-License-Identifier: Apache-2.0
// Tests of weights inside of the file, in external files, missing and replaced, and of writing and reading kerf IR.
#include "Graphs.h"

namespace kerf {
namespace {

/// Returns a graph that multiplies x [2, 3] by w [3, 4], whose data are in `location` at `offset`.
Graph external(const std::string &location, const std::string &offset = "0", const std::string &length = "") {
  Graph g;
  g.input("x", {2, 3});
  g.parameter("w", {3, 4});
  onnx::TensorProto *w = g.graph->mutable_initializer(0);
  w->clear_raw_data();
  w->set_data_location(1);
  auto add = [&](const char *key, const std::string &value) {
    onnx::StringPair *pair = w->add_external_data();
    pair->set_key(key);
    pair->set_value(value);
  };
  add("location", location);
  add("offset", offset);
  if (!length.empty())
    add("length", length);
  g.sumIsLoss(g.op("MatMul", {"x", "w"}));
  return g;
}

void writeFloats(const std::filesystem::path &path, int count) {
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < count; ++i) {
    float value = float(i);
    file.write(reinterpret_cast<const char *>(&value), sizeof value);
  }
}

TEST(File, ExternalDataIsMapped) {
  TemporaryFolder folder;
  writeFloats(folder.path / "w.bin", 20);
  Imported result = importFile(external("w.bin", "8", "48").write(folder.path));
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  const Tensor &w = result.model->weights.at("w");
  EXPECT_EQ(w.shape, (Shape{3, 4}));
  EXPECT_EQ(reinterpret_cast<const float *>(w.data)[0], 2.0f);
  EXPECT_EQ(reinterpret_cast<const float *>(w.data)[11], 13.0f);
}

TEST(File, AbsentWeightsAreAWarning) {
  TemporaryFolder folder;
  Imported result = importFile(external("w.bin").write(folder.path));
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_TRUE(result.model->weights.empty());
  ASSERT_EQ(result.model->warnings.size(), 1u);
  EXPECT_NE(result.model->warnings[0].find("'w.bin' (1 tensors)"), std::string::npos);
}

TEST(File, AbsentIndicesAreAnError) {
  TemporaryFolder folder;
  Graph g;
  g.input("x", {2, 3});
  g.constant<int64_t>({1}, {6}, "shape");
  onnx::TensorProto *shape = g.graph->mutable_initializer(0);
  shape->clear_raw_data();
  shape->set_data_location(1);
  onnx::StringPair *pair = shape->add_external_data();
  pair->set_key("location");
  pair->set_value("gone.bin");
  g.sumIsLoss(g.op("Reshape", {"x", "shape"}));
  std::string message = errorOf(importFile(g.write(folder.path)));
  EXPECT_NE(message.find("'shape'"), std::string::npos) << message;
  EXPECT_NE(message.find("does not exist"), std::string::npos) << message;
}

TEST(File, ShortExternalDataIsRefused) {
  TemporaryFolder folder;
  writeFloats(folder.path / "w.bin", 12);
  std::string message = errorOf(importFile(external("w.bin", "4").write(folder.path)));
  EXPECT_NE(message.find("48 bytes from byte 4"), std::string::npos) << message;
  EXPECT_NE(message.find("only 48"), std::string::npos) << message;
  EXPECT_NE(errorOf(importFile(external("w.bin", "0", "44").write(folder.path))).find("needs 48 bytes"),
            std::string::npos);
  EXPECT_NE(errorOf(importFile(external("w.bin", "9223372036854775807").write(folder.path))), "");
  EXPECT_NE(errorOf(importFile(external("w.bin", "-4").write(folder.path))).find("'-4'"), std::string::npos);
}

TEST(File, PathsOutOfTheFolderAreRefused) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder.path / "model");
  writeFloats(folder.path / "w.bin", 12);
  for (std::string location :
       {std::string("../w.bin"), (folder.path / "w.bin").string(), std::string("sub/../../w.bin"), std::string()}) {
    std::string message = errorOf(importFile(external(location).write(folder.path / "model")));
    EXPECT_NE(message.find("inside the model's folder"), std::string::npos) << location << ": " << message;
  }
}

TEST(File, WeightsOptionReplacesByName) {
  TemporaryFolder folder;
  auto [tensor, bytes] = allocateTensor(DType::F32, {3, 4});
  reinterpret_cast<float *>(bytes)[5] = 42;
  ASSERT_TRUE(bool(writeSafetensors((folder.path / "new.safetensors").string(), {{"w", tensor}, {"other", tensor}})));
  ImportOptions options;
  options.weights = (folder.path / "new.safetensors").string();
  Imported result = importFile(external("w.bin").write(folder.path), options);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(reinterpret_cast<const float *>(result.model->weights.at("w").data)[5], 42.0f);
  EXPECT_NE(result.model->warnings.at(0).find("other"), std::string::npos);

  auto [wrong, unused] = allocateTensor(DType::F32, {4, 3});
  ASSERT_TRUE(bool(writeSafetensors((folder.path / "new.safetensors").string(), {{"w", wrong}})));
  EXPECT_NE(errorOf(importFile(external("w.bin").write(folder.path), options)).find("[4, 3]"), std::string::npos);
}

/// Returns a graph with a parameter, a constant table and a small constant.
Graph mixed() {
  Graph g;
  g.input("x", {50, 30});
  std::vector<float> table(50 * 30);
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = float(i) / 7;
  std::string scaled = g.op("Mul", {"x", g.constant<float>({1, 50, 30}, table, "val_90")});
  std::string shifted = g.op("Add", {scaled, g.constant<float>({}, {0.1f})});
  g.sumIsLoss(g.op("MatMul", {shifted, g.parameter("w", {30, 4})}));
  return g;
}

TEST(File, WrittenIrReadsBackTheSame) {
  TemporaryFolder folder;
  std::string source = mixed().write(folder.path), path = (folder.path / "out.mlir").string();
  Imported first = importFile(source);
  ASSERT_TRUE(bool(first.model)) << errorOf(first);
  Status written = writeModel(*first.model, source, path);
  ASSERT_TRUE(bool(written)) << written.error().message;
  Imported second = importFile(path);
  ASSERT_TRUE(bool(second.model)) << errorOf(second);
  EXPECT_EQ(first.text(), second.text());
  EXPECT_EQ(second.arguments("parameter"), std::vector<std::string>{"w*"});
  EXPECT_EQ(second.arguments("constant"), std::vector<std::string>{"val_90"});
  ASSERT_EQ(second.model->weights.size(), 2u);
  for (const auto &[name, tensor] : first.model->weights) {
    const Tensor &other = second.model->weights.at(name);
    EXPECT_EQ(tensor.shape, other.shape);
    EXPECT_EQ(std::memcmp(tensor.data, other.data, tensor.bytes()), 0) << name;
  }
}

TEST(File, IrReadInDoubleIsTheGraphReadInDouble) {
  TemporaryFolder folder;
  std::string source = mixed().write(folder.path), path = (folder.path / "out.mlir").string();
  Imported first = importFile(source);
  ASSERT_TRUE(bool(first.model)) << errorOf(first);
  ASSERT_TRUE(bool(writeModel(*first.model, source, path)));
  ImportOptions options;
  options.floatType = DType::F64;
  Imported fromText = importFile(path, options), fromGraph = importFile(source, options);
  ASSERT_TRUE(bool(fromText.model)) << errorOf(fromText);
  ASSERT_TRUE(bool(fromGraph.model)) << errorOf(fromGraph);
  EXPECT_EQ(fromText.text(), fromGraph.text());
  EXPECT_EQ(fromText.text().find("f32"), std::string::npos);
}

} // namespace
} // namespace kerf
