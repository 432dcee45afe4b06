// SPDX-License-Identifier: Apache-2.0
// Tests of reading the texts that PyTorch's exporter stores with nodes.
#include "Onnx/TorchMetadata.h"
#include <gtest/gtest.h>

using namespace kerf::frontend;

namespace {

const std::string kLoss = "%loss : [num_users=1] = call_function[target=torch.ops.aten.cross_entropy_loss.default]"
                          "(args = (%linear, %labels, None, 1, -100, 0.1), kwargs = {})";
const std::string kNested = "%s : [num_users=1] = call_function[target=torch.ops.aten.f.default]"
                            "(args = (%x, [2, (3, 4)], {}), kwargs = {scale: 0.5, dropout_p: 0.25})";

TEST(TorchMetadata, ArgumentOfACallByItsPlace) {
  EXPECT_EQ(callArgument(kLoss, "aten.cross_entropy_loss.default", 5, "label_smoothing"), "0.1");
  EXPECT_EQ(callArgument(kLoss, "aten.cross_entropy_loss.default", 0, "self"), "%linear");
  EXPECT_EQ(callArgument(kNested, "aten.f.default", 1, ""), "[2, (3, 4)]");
}

TEST(TorchMetadata, ArgumentOfACallByItsName) {
  EXPECT_EQ(callArgument(kNested, "aten.f.default", 4, "dropout_p"), "0.25");
  EXPECT_EQ(callArgument(kNested, "aten.f.default", 4, "scale"), "0.5");
}

TEST(TorchMetadata, ArgumentsThatACallDoesNotHave) {
  EXPECT_EQ(callArgument(kNested, "aten.f.default", 4, "other"), std::nullopt);
  EXPECT_EQ(callArgument(kLoss, "aten.cross_entropy_loss.default", 6, "other"), std::nullopt);
  EXPECT_EQ(callArgument(kLoss, "aten.embedding.default", 0, ""), std::nullopt);
  for (size_t end = 0; end < kNested.size(); ++end) // damaged text
    callArgument(kNested.substr(0, end), "aten.f.default", 4, "dropout_p");
}

TEST(TorchMetadata, SignatureAndCallsOfAFile) {
  auto model = std::make_shared<kerf::onnx::ModelProto>();
  kerf::onnx::StringPair *signature = model->mutable_graph()->add_metadata_props();
  signature->set_key("pkg.torch.export.ExportedProgram.graph_signature");
  signature->set_value(
      "\n# inputs\np_fc_weight: PARAMETER target='fc.weight'\nb_mean: BUFFER target='bn.running_mean' "
      "persistent=True\nx: USER_INPUT\n\n# outputs\ngetitem_3: BUFFER_MUTATION target='bn.running_mean'\n");
  kerf::onnx::NodeProto *node = model->mutable_graph()->add_node();
  kerf::onnx::StringPair *call = node->add_metadata_props();
  call->set_key("pkg.torch.onnx.fx_node");
  call->set_value("%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, "
                  "%p_fc_weight), kwargs = {})");
  OnnxFile file;
  file.model = model;
  std::vector<SignatureEntry> parameters = signatureParameters(file);
  ASSERT_EQ(parameters.size(), 1u);
  EXPECT_EQ(parameters[0].variable, "p_fc_weight");
  EXPECT_EQ(parameters[0].target, "fc.weight");
  EXPECT_EQ(mutatedBuffers(file), std::vector<std::string>{"bn.running_mean"});
  EXPECT_EQ(variablesOfCalls(file), (std::set<std::string>{"x", "p_fc_weight"}));
}

} // namespace
