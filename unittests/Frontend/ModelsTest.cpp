// SPDX-License-Identifier: Apache-2.0
// Real exports: they import, hold every parameter that PyTorch had, and nothing is left of their shape and mask
// arithmetic.
#include "Graphs.h"
#include "kerf/Support/File.h"

#include <nlohmann/json.hpp>

namespace kerf {
namespace {

/// The folder of the exported models: $KERF_SHARED/models, or beside the sources.
std::filesystem::path modelsFolder() {
  if (const char *shared = std::getenv("KERF_SHARED"))
    return std::filesystem::path(shared) / "models";
  return std::filesystem::path(KERF_SOURCE_DIR).parent_path() / "shared" / "models";
}

struct Export {
  const char *model, *file;
  const char *loss = "";
  friend void PrintTo(const Export &e, std::ostream *out) { *out << e.model << "/" << e.file; }
};
std::string label(const testing::TestParamInfo<Export> &info) {
  std::string name = std::string(info.param.model) + "_" + info.param.file;
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

class Exports : public testing::TestWithParam<Export> {
protected:
  std::filesystem::path folder = modelsFolder() / GetParam().model;
  void SetUp() override {
    if (!std::filesystem::exists(folder / GetParam().file))
      GTEST_SKIP() << (folder / GetParam().file) << " does not exist (set KERF_SHARED)";
  }
  nlohmann::json json(const char *name) { return nlohmann::json::parse(*readFile((folder / name).string())); }
  Imported import(DType floatType = DType::F32) {
    ImportOptions options;
    options.loss = GetParam().loss;
    options.floatType = floatType;
    return importFile((folder / GetParam().file).string(), options);
  }
};

TEST_P(Exports, HoldEveryParameterAndNoIntegerChains) {
  Imported result = import();
  ASSERT_TRUE(bool(result.model)) << result.model.error().message;
  bool structure = std::filesystem::exists(folder / "structure.json");
  nlohmann::json golden = json(structure ? "structure.json" : "golden.json");
  int64_t elements = 0, trained = 0;
  auto function = result.function();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, "kerf.trainable")) {
      ++trained;
      elements += elementsOf(ir::shapeOf(function.getArgument(i)));
    }
  std::string file = GetParam().file;
  const nlohmann::json &kept = !structure && golden["files"][file].contains("parameters")
                                   ? golden["files"][file]["parameters"]
                                   : nlohmann::json();
  if (kept.is_null()) {
    EXPECT_EQ(trained, golden["parameters"]["tensors"].get<int64_t>());
    EXPECT_EQ(elements, golden["parameters"]["count"].get<int64_t>());
    for (const std::string &warning : result.model->warnings)
      EXPECT_TRUE(warning.find("of the model does not exist") != std::string::npos ||
                  warning.find("exported in evaluation mode") != std::string::npos)
          << warning;
  } else {
    EXPECT_EQ(trained, kept["kept"].get<int64_t>() + int64_t(kept["transposed"].size()));
    std::string warnings;
    for (const std::string &warning : result.model->warnings)
      warnings += warning + "\n";
    for (const auto &name : kept["gone"])
      EXPECT_NE(warnings.find(name.get<std::string>()), std::string::npos) << name;
    for (const auto &[name, now] : kept["transposed"].items())
      EXPECT_NE(warnings.find(name + " is " + now.get<std::string>()), std::string::npos) << name;
    EXPECT_EQ(warnings.empty(), kept["gone"].empty() && kept["transposed"].empty()) << warnings;
  }
  // The causal mask is the only comparison of indices; labels are compared once more, for the loss's denominator.
  bool maskless = std::string(GetParam().model) == "mlp" || file == "opset23.onnx";
  EXPECT_EQ(result.ops<ir::CompareOp>().size(), maskless ? 1u : 2u);
  EXPECT_EQ(result.ops<ir::IotaOp>().size(), maskless ? 0u : 2u);
  EXPECT_TRUE(result.ops<ir::GatherOp>().empty());
  function.walk([&](mlir::Operation *op) {
    for (mlir::Value value : op->getResults()) {
      bool labels = llvm::any_of(op->getOperands(),
                                 [](mlir::Value v) { return ir::tensorType(v).getElementType().isInteger(64); });
      bool integer = ir::tensorType(value).getElementType().isInteger(64);
      EXPECT_TRUE(!integer || labels || mlir::isa<ir::ConstantOp>(op)) << op->getName().getStringRef().str();
    }
  });
  EXPECT_LT(result.text().size(), 500u << 10);
}

TEST_P(Exports, HaveNoFloatLeftInDouble) {
  Imported result = import(DType::F64);
  ASSERT_TRUE(bool(result.model)) << result.model.error().message;
  EXPECT_EQ(result.text().find("f32"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Models, Exports,
                         testing::Values(Export{"gpt2", "model.onnx"}, Export{"gpt2", "raw.onnx"},
                                         Export{"gpt2", "default.onnx"}, Export{"gpt2", "fresh_default.onnx"},
                                         Export{"gpt2", "logits.onnx", "cross_entropy(logits, labels)"},
                                         Export{"llama", "model.onnx"}, Export{"llama", "raw.onnx"},
                                         Export{"llama", "default.onnx"}, Export{"llama", "opset23.onnx"},
                                         Export{"mlp", "model.onnx"}, Export{"mlp", "default.onnx"},
                                         Export{"gpt2-124m", "model.onnx"}, Export{"gpt2-xl", "model.onnx"},
                                         Export{"llama-7b", "model.onnx"}),
                         label);

} // namespace
} // namespace kerf
