// SPDX-License-Identifier: Apache-2.0
// Tests of the operators of the imported IR, the choice of trained initializers, and the choice of the loss.
#include "Common/LossRequest.h"
#include "Graphs.h"

namespace kerf {
namespace {

void setKind(Graph &g, const std::string &name, const std::string &kind) {
  onnx::ValueInfoProto *info = g.graph->add_value_info();
  info->set_name(name);
  onnx::StringPair *pair = info->add_metadata_props();
  pair->set_key("pkg.torch.export.graph_signature.InputSpec.kind");
  pair->set_value(kind);
}

TEST(Graph, KindsComeFromTheExporter) {
  Graph g;
  g.input("x", {40, 30});
  std::string a = g.op("Mul", {"x", g.parameter("layer.weight", {30})}),
              b = g.op("Add", {a, g.parameter("layer.running_mean", {30})});
  g.sumIsLoss(g.op("Sub", {b, g.parameter("made.up", {40, 30})}));
  setKind(g, "layer.weight", "PARAMETER");
  setKind(g, "layer.running_mean", "BUFFER");
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.arguments("input"), std::vector<std::string>{"x"});
  EXPECT_EQ(result.arguments("parameter"), std::vector<std::string>{"layer.weight*"});
  EXPECT_EQ(result.arguments("buffer"), std::vector<std::string>{"layer.running_mean"});
  EXPECT_EQ(result.arguments("constant"), std::vector<std::string>{"made.up"});
}

TEST(Graph, WithoutKindsNamesDecide) {
  Graph g;
  g.input("x", {40, 30});
  std::string y = "x";
  for (const char *name : {"gate", "val_12", "bn.running_var", "onnx::Mul_7"})
    y = g.op("Add", {y, g.parameter(name, {40, 30})});
  g.sumIsLoss(y);
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.arguments("parameter"), std::vector<std::string>{"gate*"});
  EXPECT_EQ(result.arguments("buffer"), std::vector<std::string>{"bn.running_var"});
}

TEST(Graph, GlobsFreezeAndTrain) {
  Graph g;
  g.input("x", {40, 30});
  std::string y = "x";
  for (const char *name : {"a.weight", "b.weight", "val_1"})
    y = g.op("Add", {y, g.parameter(name, {40, 30})});
  g.sumIsLoss(y);
  ImportOptions options;
  options.frozen = {"*"};
  options.trainable = {"b.*", "val_1"};
  Imported result = importGraph(g, options);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.arguments("parameter"), (std::vector<std::string>{"a.weight", "b.weight*", "val_1*"}));
}

TEST(Graph, FoldedParametersAreNamed) {
  Graph g;
  g.input("x", {2, 64});
  g.sumIsLoss(g.op("MatMul", {"x", g.parameter("val_5", {64, 32})}));
  onnx::ValueInfoProto *info = g.graph->add_value_info();
  info->set_name("val_5");
  onnx::StringPair *pair = info->add_metadata_props();
  pair->set_key("pkg.onnxscript.optimizer.folded_from");
  pair->set_value("['q.weight', 'q.scale']"); // the constant was folded from two tensors, so it is not only a transpose
  onnx::StringPair *signature = g.graph->add_metadata_props();
  signature->set_key("pkg.torch.export.ExportedProgram.graph_signature");
  signature->set_value("p_q: PARAMETER target='q.weight'\np_r: PARAMETER target='r.bias'\nx: USER_INPUT\n");
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  ASSERT_EQ(result.model->warnings.size(), 1u);
  EXPECT_NE(result.model->warnings[0].find("2 of the model's 2"), std::string::npos) << result.model->warnings[0];
  EXPECT_NE(result.model->warnings[0].find("q.weight (now in the constant val_5 [64, 32]), r.bias"), std::string::npos);
}

TEST(Graph, LocationsNameModuleAndNode) {
  Graph g;
  g.input("x", {2, 3});
  g.op("Relu", {"x"}, {}, "y");
  auto scope = [&](int index, const char *key, const char *value) {
    onnx::StringPair *pair = g.graph->mutable_node(index)->add_metadata_props();
    pair->set_key(key);
    pair->set_value(value);
  };
  scope(0, "pkg.torch.onnx.name_scopes", "['', 'h.0', 'h.0.act', 'relu']");
  g.op("Tanh", {"y"}, {}, "z");
  scope(1, "namespace", ": Model/h.1: Block/tanh: aten.tanh");
  g.op("Sigmoid", {"z"}, {}, "s"); // a node of an optimizer gets the location of its operand
  g.sumIsLoss("s");
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(ir::nodeName(result.ops<ir::MaximumOp>()[0].getLoc()), "h.0.act/node_y");
  EXPECT_EQ(ir::nodeName(result.ops<ir::TanhOp>()[0].getLoc()), "h.1/node_z");
  EXPECT_EQ(ir::nodeName(result.ops<ir::LogisticOp>()[0].getLoc()), "h.1/node_s");
}

TEST(Graph, LossRequests) {
  auto parsed = frontend::parseLoss(" cross_entropy( logits , labels ) ");
  ASSERT_TRUE(bool(parsed));
  EXPECT_EQ(parsed->value, "logits");
  EXPECT_EQ(parsed->labels, "labels");
  EXPECT_EQ(frontend::parseLoss("my/loss.0")->value, "my/loss.0");
}

TEST(Graph, ScalarsOfUnknownKindAreNamed) {
  Graph g;
  g.input("x", {4, 3});
  std::string y = g.op("Mul", {g.op("Mul", {"x", g.parameter("w", {3})}), g.parameter("clip.logit_scale", {})});
  g.sumIsLoss(g.op("Mul", {y, g.parameter("/clip/Constant.0", {})}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.arguments("parameter"), std::vector<std::string>{"w*"});
  ASSERT_EQ(result.model->warnings.size(), 1u);
  EXPECT_NE(result.model->warnings[0].find("not trained: clip.logit_scale; train them"), std::string::npos)
      << result.model->warnings[0];
  ImportOptions options;
  options.trainable = {"*.logit_scale"};
  Imported asked = importGraph(g, options);
  EXPECT_EQ(asked.arguments("parameter"), (std::vector<std::string>{"w*", "clip.logit_scale*"}));
  EXPECT_TRUE(asked.model->warnings.empty());

  for (const char *producer : {"pytorch", "another"}) { // a scalar of the outermost module has no path in its name
    Graph own;
    own.model.set_producer_name(producer);
    own.input("x", {4, 3});
    own.sumIsLoss(own.op("Mul", {own.op("Mul", {"x", own.parameter("w", {3})}), own.parameter("logit_scale", {})}));
    EXPECT_EQ(importGraph(own).model->warnings.size(), std::string(producer) == "pytorch" ? 1u : 0u);
  }
}

/// Records the name that the exporter's optimizer folded into the constant.
void setFoldedFrom(Graph &g, const std::string &name, const std::string &list) {
  onnx::ValueInfoProto *info = g.graph->add_value_info();
  info->set_name(name);
  onnx::StringPair *pair = info->add_metadata_props();
  pair->set_key("pkg.onnxscript.optimizer.folded_from");
  pair->set_value(list);
}

void setSignature(Graph &g, const std::vector<std::string> &parameters) {
  onnx::StringPair *pair = g.graph->add_metadata_props();
  pair->set_key("pkg.torch.export.ExportedProgram.graph_signature");
  for (const std::string &name : parameters)
    pair->mutable_value()->append("p_" + name + ": PARAMETER target='" + name + "'\n");
}

/// Returns a graph that looks up x in a table and multiplies by the transposed table; `copy` is the transposed copy
/// that the exporter stored.
Imported tied(const std::vector<float> &copy) {
  Graph g;
  g.input("ids", {4}, onnx::TensorProto::INT64);
  std::string table = g.constant<float>({3, 2}, {1, 2, 3, 4, 5, 6}, "head.weight"),
              transposed = g.constant<float>({2, 3}, copy, "val_9");
  setKind(g, table, "PARAMETER");
  setFoldedFrom(g, transposed, "['head.weight']");
  setSignature(g, {table});
  g.sumIsLoss(g.op("MatMul", {g.op("Gather", {table, "ids"}), transposed}));
  return importGraph(g);
}

TEST(Graph, ATransposedCopyIsItsParameter) {
  Imported result = tied({1, 3, 5, 2, 4, 6});
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.arguments("parameter"), std::vector<std::string>{"head.weight*"});
  EXPECT_EQ(result.ops<ir::TransposeOp>().size(), 1u);
  EXPECT_TRUE(result.ops<ir::ConstantOp>().empty());
  Imported other = tied({1, 3, 5, 2, 4, 7});
  ASSERT_TRUE(bool(other.model)) << errorOf(other);
  EXPECT_TRUE(other.ops<ir::TransposeOp>().empty()) << "one element differs";
}

TEST(Graph, TransposedWeightsAreTrainedUnderTheirNewName) {
  Graph g;
  g.input("x", {4, 3, 5});
  std::string a = g.parameter("val_1", {5, 6}), b = g.parameter("val_2", {6, 7}), c = g.parameter("val_3", {7, 8}),
              d = g.parameter("val_4", {8, 8}), bias = g.parameter("l.bias", {8});
  setKind(g, bias, "PARAMETER");
  setFoldedFrom(g, a, "['l.0']");
  setFoldedFrom(g, b, "['l.1', 'l.scale']");
  setFoldedFrom(g, c, "['l.2']");
  setFoldedFrom(g, d, "['l.3']");
  setSignature(g, {"l.0", "l.1", "l.2", "l.3", "l.scale", "l.bias"});
  std::string y = g.op("MatMul", {g.op("MatMul", {g.op("MatMul", {"x", a}), b}), c});
  y = g.op("Add", {g.op("MatMul", {y, d}), bias});
  g.sumIsLoss(g.op("Add", {y, g.op("ReduceSum", {d},
                                   {{"keepdims", 0}})})); // another node reads the constant too, so its role is unknown
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.arguments("parameter"), (std::vector<std::string>{"val_1*", "val_3*", "l.bias*"}));
  std::string said;
  for (const std::string &warning : result.model->warnings)
    said += warning + "\n";
  for (const char *words : {"transposed 2 weights", "l.0 is val_1, l.2 is val_3",
                            "folded 3 of the model's 6 parameters", "l.3 (now in the constant val_4 [8, 8])"})
    EXPECT_NE(said.find(words), std::string::npos) << said;
}

TEST(Graph, LossIsCalledLossWhateverTheExporterCallsIt) {
  Graph g;
  g.input("x", {4});
  g.op("Mul", {"x", g.parameter("w", {4})}, {}, "y");
  g.op("ReduceMax", {"y"}, {{"keepdims", 0}}, "largest");
  g.op("ReduceMean", {"y"}, {{"keepdims", 0}}, "sub_2");
  auto reductions = [](Imported &result) {
    EXPECT_TRUE(bool(result.model)) << errorOf(result);
    EXPECT_EQ(result.function().getResultAttrOfType<mlir::StringAttr>(0, "kerf.name").str(), "loss");
    return result.ops<ir::ReduceOp>();
  };
  g.output("y", {4});
  g.output("sub_2");
  Imported only = importGraph(g);
  EXPECT_EQ(reductions(only)[0].getKind(), ir::ReduceKindIR::sum);
  ImportOptions options;
  options.loss = "largest";
  Imported asked = importGraph(g, options);
  EXPECT_EQ(reductions(asked)[0].getKind(), ir::ReduceKindIR::max);

  Graph two(g);
  two.op("ReduceMax", {"y"}, {{"keepdims", 0}}, "loss");
  two.output("loss");
  Imported named = importGraph(two);
  EXPECT_EQ(reductions(named)[0].getKind(), ir::ReduceKindIR::max) << "an output of that name comes first";
}

TEST(Graph, CrossEntropyOfLogitsCountsInTheGraph) {
  Graph g;
  g.input("x", {2, 5, 3});
  g.op("MatMul", {"x", g.parameter("w", {3, 7})}, {}, "logits");
  g.output("logits", {2, 5, 7});
  ImportOptions options;
  options.loss = "cross_entropy(logits, labels)";
  Imported result = importGraph(g, options);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.arguments("input"), (std::vector<std::string>{"x", "labels"}));
  EXPECT_EQ(ir::shapeOf(result.function().getArgument(1)), (Shape{2, 5}));
  ASSERT_EQ(result.ops<ir::CrossEntropyOp>().size(), 1u);
  EXPECT_EQ(result.ops<ir::CrossEntropyOp>()[0].getIgnoreIndex(), -100);
  EXPECT_EQ(result.ops<ir::ReduceOp>().size(), 2u) << "the sum and the number of labels that count";
  EXPECT_EQ(result.ops<ir::DivideOp>().size(), 1u);
}

TEST(Graph, LossWithoutIgnoredLabelDividesByTheirNumber) {
  Graph g;
  g.input("x", {4, 7});
  g.input("labels", {4}, onnx::TensorProto::INT64);
  g.op("SoftmaxCrossEntropyLoss", {"x", "labels"}, {}, "loss");
  g.output("loss");
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.ops<ir::ReduceOp>().size(), 1u);
  auto divisor = result.ops<ir::DivideOp>()[0].getRhs().getDefiningOp<ir::ConstantOp>();
  ASSERT_TRUE(divisor);
  EXPECT_EQ(mlir::cast<mlir::DenseElementsAttr>(divisor.getValue()).getSplatValue<float>(), 4.0f);
}

TEST(Graph, ClassesInDimensionOneMoveLast) {
  Graph g;
  g.input("x", {2, 7, 5});
  g.input("labels", {2, 5}, onnx::TensorProto::INT64);
  g.op("SoftmaxCrossEntropyLoss", {"x", "labels"}, {}, "loss");
  g.output("loss");
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(ir::shapeOf(result.ops<ir::CrossEntropyOp>()[0].getLogits()), (Shape{2, 5, 7}));
}

TEST(Graph, MatMulRanks) {
  struct Case {
    Shape x, y, result;
  };
  for (const Case &c :
       {Case{{3}, {3}, {}}, Case{{3}, {3, 4}, {4}}, Case{{2, 3}, {3}, {2}}, Case{{5, 2, 3}, {3, 4}, {5, 2, 4}},
        Case{{2, 3}, {5, 3, 4}, {5, 2, 4}}, Case{{5, 1, 2, 3}, {6, 3, 4}, {5, 6, 2, 4}},
        Case{{5, 2, 3}, {1, 3, 4}, {5, 2, 4}}, Case{{3}, {5, 3, 4}, {5, 4}}, Case{{5, 2, 3}, {3}, {5, 2}}}) {
    Graph g;
    g.input("x", c.x);
    g.input("y", c.y);
    g.op("MatMul", {"x", "y"}, {}, "product");
    g.sumIsLoss(g.op("Relu", {"product"}));
    Imported result = importGraph(g);
    ASSERT_TRUE(bool(result.model)) << errorOf(result);
    EXPECT_EQ(ir::shapeOf(result.ops<ir::MaximumOp>()[0].getLhs()), c.result);
  }
}

TEST(Graph, GatherAtConstantPositionsIsASlice) {
  Graph g;
  g.input("x", {2, 3, 8});
  g.sumIsLoss(g.op("Add", {"x", g.op("Gather", {g.parameter("wpe", {9, 8}), g.constant<int64_t>({1, 3}, {4, 5, 6})})}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  ASSERT_EQ(result.ops<ir::SliceOp>().size(), 1u);
  EXPECT_EQ(result.ops<ir::SliceOp>()[0].getStart().vec(), (std::vector<int64_t>{4, 0}));
  EXPECT_EQ(result.ops<ir::SliceOp>()[0].getLimit().vec(), (std::vector<int64_t>{7, 8}));
}

TEST(Graph, ConstantPositionsCountFromTheFront) {
  Graph g;
  g.input("x", {7, 4});
  g.sumIsLoss(g.op("Gather", {"x", g.integers({-1, 2, -7})}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  auto at = result.ops<ir::EmbeddingOp>().at(0).getIndices().getDefiningOp<ir::ConstantOp>();
  ASSERT_TRUE(at);
  auto values = mlir::cast<mlir::DenseElementsAttr>(at.getValue()).getValues<int64_t>();
  EXPECT_EQ(std::vector<int64_t>(values.begin(), values.end()), (std::vector<int64_t>{6, 2, 0}));
}

TEST(Graph, GatherOfInputsIsAnEmbedding) {
  Graph g;
  g.input("ids", {2, 3}, onnx::TensorProto::INT64);
  g.input("x", {4, 5, 6});
  std::string rows = g.op("ReduceSum", {g.op("Gather", {g.parameter("wte", {9, 8}), "ids"})}, {{"keepdims", 0}});
  std::string other = g.op("ReduceSum", {g.op("Gather", {"x", "ids"}, {{"axis", 1}})}, {{"keepdims", 0}});
  g.op("Add", {rows, other}, {}, "loss");
  g.output("loss");
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  ASSERT_EQ(result.ops<ir::EmbeddingOp>().size(), 1u);
  EXPECT_EQ(result.ops<ir::EmbeddingOp>()[0].getRows(), 9);
  ASSERT_EQ(result.ops<ir::GatherOp>().size(), 1u);
  EXPECT_EQ(ir::shapeOf(result.ops<ir::GatherOp>()[0].getResult()), (Shape{4, 2, 3, 6}));
}

TEST(Graph, AttentionWithCausalMaskNeedsNoMask) {
  Graph g(23);
  for (const char *name : {"q", "k", "v"})
    g.input(name, {2, 4, 6, 8});
  std::vector<bool> bits;
  for (int i = 0; i < 36; ++i)
    bits.push_back(i % 6 <= i / 6);
  g.sumIsLoss(g.op("Attention", {"q", "k", "v", g.constant<bool>({1, 1, 6, 6}, bits)}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  ir::AttentionOp op = result.ops<ir::AttentionOp>().at(0);
  EXPECT_TRUE(op.getCausal());
  EXPECT_FALSE(op.getMask());
  EXPECT_EQ(ir::shapeOf(op.getQuery()), (Shape{2, 6, 4, 8}));
  EXPECT_NEAR(op.getScale().convertToDouble(), 1 / std::sqrt(8.0), 1e-15);
}

TEST(Graph, AttentionBehindACacheIsItsFormula) {
  Graph g(23);
  for (const char *name : {"q", "k", "v"})
    g.input(name, {2, 4, 3, 8});
  for (const char *name : {"past_k", "past_v"})
    g.input(name, {2, 4, 5, 8});
  onnx::NodeProto *node = g.node("Attention", {"q", "k", "v", "", "past_k", "past_v"}, {"y", "present_k", "present_v"});
  Graph::setInt(node, "is_causal", 1);
  g.sumIsLoss("y");
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_TRUE(result.ops<ir::AttentionOp>().empty());
  EXPECT_EQ(ir::shapeOf(result.ops<ir::SoftmaxOp>().at(0).getResult()), (Shape{2, 4, 3, 8}));
  EXPECT_TRUE(result.ops<ir::SelectOp>().empty()) << "every query sees a key, and the mask is a constant";
}

TEST(Graph, SettingsOfANodeAreNoParameters) {
  Graph g;
  g.input("x", {1, 1, 2, 2});
  std::string y = g.op("Mul", {"x", g.parameter("w", {1})});
  std::string scales = g.constant<float>({4}, {1, 1, 2, 2}, "upsample.scales");
  g.sumIsLoss(g.op("Resize", {y, "", scales}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.arguments("parameter"), (std::vector<std::string>{"w*"}));
}

TEST(Graph, ScattersAtComputedPlacesAreSums) {
  auto scatter = [](const char *reduction) {
    Graph g;
    g.input("x", {4, 3});
    g.input("at", {2, 1}, onnx::TensorProto::INT64);
    onnx::NodeProto *node = g.node("ScatterND", {"x", "at", g.parameter("w", {2, 3})}, {"y"});
    Graph::setText(node, "reduction", reduction);
    g.sumIsLoss("y");
    return importGraph(g);
  };
  for (const char *reduction : {"none", "add"}) {
    Imported result = scatter(reduction);
    ASSERT_TRUE(bool(result.model)) << errorOf(result);
    EXPECT_FALSE(result.ops<ir::ScatterAddOp>().empty());
  }
  Imported largest = scatter("max");
  ASSERT_FALSE(bool(largest.model));
  EXPECT_NE(errorOf(largest).find("'max' at computed indices"), std::string::npos) << errorOf(largest);
}

TEST(Graph, EverythingIsDoubleInDouble) {
  Graph g;
  g.input("x", {2, 3});
  std::string cast = g.op("Cast", {g.op("Mul", {"x", g.parameter("w", {3})})}, {{"to", onnx::TensorProto::FLOAT}});
  g.sumIsLoss(g.op("Add", {cast, g.constant<float>({}, {0.1f})}));
  ImportOptions options;
  options.floatType = DType::F64;
  Imported result = importGraph(g, options);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.text().find("f32"), std::string::npos) << result.text();
  EXPECT_TRUE(result.ops<ir::ConvertOp>().empty());
  EXPECT_EQ(result.model->weights.at("w").dtype, DType::F32) << "weights keep their file's type";
}

} // namespace
} // namespace kerf
