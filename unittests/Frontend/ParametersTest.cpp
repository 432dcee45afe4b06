// SPDX-License-Identifier: Apache-2.0
// Tests of the changes that PyTorch's older exporter makes to parameters: it merges equal ones, transposes weights, and folds others away.
#include "Graphs.h"

namespace kerf {
namespace {

std::string warningsOf(const Imported &result) {
  std::string all;
  for (const std::string &warning : result.model->warnings)
    all += warning + "\n";
  return all;
}

/// `name` is made of the initializer `of`, as the exporter merges equal tensors.
std::string merged(Graph &g, const std::string &of, const std::string &name) {
  g.node("Identity", {of}, {name})->set_name("Identity_" + std::to_string(g.count++));
  return name;
}

TEST(Parameters, NormsThatBeginEqualAreTrainedApart) {
  Graph g;
  g.input("x", {4, 3});
  std::string ones = g.constant<float>({3}, {1, 1, 1}, "first.weight"), table = g.parameter("embed.weight", {3});
  std::string bias = g.parameter("layers.0.bias", {3}), clone = merged(g, bias, "layers.10.bias");
  std::string variance = merged(g, ones, "bn.running_var"), second = merged(g, ones, "second.weight"),
              head = merged(g, table, "head.weight"), half = merged(g, second, "/half/Identity_output_0");
  std::string y = "x";
  for (const std::string &factor : {ones, second, table, head, half, bias, clone})
    y = g.op("Mul", {y, factor});
  g.sumIsLoss(g.op("Add", {y, variance}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.arguments("parameter"), (std::vector<std::string>{"first.weight*", "embed.weight*", "layers.0.bias*",
                                                                     "layers.10.bias*", "second.weight*"}))
      << "what is neither one number nor of a repeated layer is one tied parameter";
  EXPECT_EQ(result.ops<ir::MultiplyOp>().size(), 7u);
  EXPECT_NE(warningsOf(result).find("; 2 that"), std::string::npos) << warningsOf(result);
  EXPECT_NE(warningsOf(result).find("trained separately again: layers.10.bias, second.weight\n"), std::string::npos)
      << warningsOf(result);
  EXPECT_EQ(result.model->weights.at("second.weight").shape, Shape{3});
}

TEST(Parameters, AnIdentityThatIsNotTheExportersStays) {
  Graph g;
  g.input("x", {4, 3});
  std::string ones = g.constant<float>({3}, {1, 1, 1}, "first.weight");
  g.sumIsLoss(g.op("Mul", {g.op("Mul", {"x", ones}), g.op("Identity", {ones})}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.arguments("parameter"), std::vector<std::string>{"first.weight*"});
  EXPECT_TRUE(result.model->warnings.empty());
}

TEST(Parameters, WeightsOfProductsAreTrainedWhateverTheirName) {
  Graph g;
  g.input("ids", {4}, onnx::TensorProto::INT64);
  std::string table = g.constant<float>({3, 2}, {1, 2, 3, 4, 5, 6}, "embed.weight");
  std::string weight = g.parameter("onnx::MatMul_7", {2, 2}), left = g.parameter("onnx::MatMul_8", {2, 4}),
              head = g.constant<float>({2, 3}, {1, 3, 5, 2, 4, 6}, "onnx::MatMul_9"),
              scale = g.parameter("onnx::Mul_10", {3});
  std::string hidden = g.op("MatMul", {g.op("Gather", {table, "ids"}), weight});
  std::string logits = g.op("Mul", {g.op("MatMul", {hidden, head}), scale});
  g.sumIsLoss(g.op("MatMul", {left, logits}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.arguments("parameter"), (std::vector<std::string>{"embed.weight*", "onnx::MatMul_7*"}));
  EXPECT_EQ(result.ops<ir::TransposeOp>().size(), 1u) << "the head is the table";
  for (const char *words : {"transposed 1 weights", "the new names: onnx::MatMul_7\n", "not trained",
                            "onnx::MatMul_8 [2, 4]", "onnx::Mul_10 [3]", "do_constant_folding=False"})
    EXPECT_NE(warningsOf(result).find(words), std::string::npos) << words << " in: " << warningsOf(result);
}

TEST(Parameters, KindsOfInitializersThatAreInputs) {
  Graph g;
  g.input("x", {4, 3});
  g.sumIsLoss(g.op("Mul", {g.op("Mul", {"x", g.parameter("w", {3})}), g.parameter("mean", {3})}));
  for (const char *name : {"w", "mean"}) {
    onnx::ValueInfoProto *info = g.graph->add_input();
    Graph::setType(info, name, onnx::TensorProto::FLOAT, {3});
    onnx::StringPair *pair = info->add_metadata_props();
    pair->set_key("pkg.torch.export.graph_signature.InputSpec.kind");
    pair->set_value(std::string(name) == "w" ? "PARAMETER" : "BUFFER");
  }
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.arguments("parameter"), std::vector<std::string>{"w*"});
  EXPECT_EQ(result.arguments("input"), std::vector<std::string>{"x"});
}

/// A look-up of `table` [3, 2] whose call in PyTorch had these arguments.
Imported lookedUp(const std::vector<float> &table, const std::string &arguments, bool constantIndices = false) {
  Graph g;
  g.input("x", {4, 2});
  std::string ids = constantIndices ? g.integers({1, 2, 2, 0}) : g.input("ids", {4}, onnx::TensorProto::INT64);
  std::string rows = g.op("Gather", {g.constant<float>({3, 2}, table, "embed.weight"), ids});
  onnx::StringPair *pair = g.graph->mutable_node(0)->add_metadata_props();
  pair->set_key("pkg.torch.onnx.fx_node");
  pair->set_value("%embedding : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (" +
                  arguments + "), kwargs = {})");
  g.sumIsLoss(g.op("Mul", {"x", rows}));
  return importGraph(g);
}

TEST(Parameters, RowsOfPaddingAreNotTrained) {
  const std::vector<float> first{0, 0, 1, 2, 3, 4}, second{1, 2, 0, 0, 3, 4};
  auto selects = [](Imported result) {
    EXPECT_TRUE(bool(result.model)) << errorOf(result);
    return result.model ? result.ops<ir::SelectOp>().size() : 99;
  };
  EXPECT_EQ(selects(lookedUp(first, "%p_embed_weight, %ids, 0")), 1u);
  EXPECT_EQ(selects(lookedUp(second, "%p_embed_weight, %ids, 1")), 1u);
  EXPECT_EQ(selects(lookedUp(first, "%p_embed_weight, %ids, 0, False, True")), 1u);
  EXPECT_EQ(selects(lookedUp(first, "%p_embed_weight, %ids, 0", true)), 1u) << "constant indices";
  EXPECT_EQ(selects(lookedUp(first, "%p_embed_weight, %ids")), 0u);
  EXPECT_EQ(selects(lookedUp(first, "%p_embed_weight, %ids, -1")), 0u);
  EXPECT_EQ(selects(lookedUp(second, "%p_embed_weight, %ids, 0")), 0u) << "its numbers would be lost";
  EXPECT_EQ(selects(lookedUp(first, "%p_embed_weight, %ids, 3")), 0u);
  EXPECT_EQ(selects(lookedUp(first, "%p_embed_weight")), 0u);
}

} // namespace
} // namespace kerf
