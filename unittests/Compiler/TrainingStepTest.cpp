// SPDX-License-Identifier: Apache-2.0
// Tests that the training step of a Hugging Face configuration has the FLOP of the same model's export, and that
// building it takes the time of its distinct layers only.
#include "kerf/Compiler/Compiler.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace kerf {
namespace {

namespace fs = std::filesystem;

fs::path modelsFolder() {
  if (const char *shared = std::getenv("KERF_SHARED"))
    return fs::path(shared) / "models";
  return fs::path(KERF_SOURCE_DIR).parent_path() / "shared" / "models";
}

struct Totals {
  double products = 0, attention = 0;
  int64_t trainedElements = 0, trainedTensors = 0;
};

/// Returns the FLOP of `function`, including called functions.
void addWork(mlir::ModuleOp module, mlir::func::FuncOp function, Totals &totals) {
  function.walk([&](mlir::Operation *op) {
    if (auto call = mlir::dyn_cast<ir::CallOp>(op))
      addWork(module, module.lookupSymbol<mlir::func::FuncOp>(call.getCallee()), totals);
    auto work = mlir::dyn_cast<ir::WorkOpInterface>(op);
    if (!work)
      return;
    if (work.getKernelClass() == KernelClass::Attention)
      totals.attention += work.getFlops();
    if (mlir::isa<ir::DotGeneralOp>(op))
      totals.products += work.getFlops();
  });
}

Totals totalsOf(const TrainingStep &step) {
  mlir::ModuleOp module = *step.module;
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  Totals totals;
  addWork(module, main, totals);
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (main.getArgAttr(i, "kerf.trainable")) {
      totals.trainedElements += elementsOf(ir::shapeOf(main.getArgument(i)));
      ++totals.trainedTensors;
    }
  return totals;
}

struct Imported {
  std::unique_ptr<mlir::MLIRContext> context = createContext();
  Result<TrainingStep> step = Error{"not imported"};
};

Imported import(const fs::path &path, int64_t batch = 0, int64_t sequence = 0) {
  StepOptions options;
  options.import.globalBatch = batch;
  options.import.sequence = sequence;
  options.optimizer.optimizer = "adamw";
  Imported result;
  result.step = importTrainingStep(*result.context, path.string(), options);
  return result;
}

struct Export {
  const char *model;
  int64_t batch, sequence;
  friend void PrintTo(const Export &e, std::ostream *out) { *out << e.model; }
};

class Exports : public testing::TestWithParam<Export> {};

TEST_P(Exports, DoTheWorkOfTheirConfiguration) {
  fs::path folder = modelsFolder() / GetParam().model;
  if (!fs::exists(folder / "config.json"))
    GTEST_SKIP() << folder << " does not exist (set KERF_SHARED)";
  Imported exported = import(folder / "model.onnx"),
           configured = import(folder / "config.json", GetParam().batch, GetParam().sequence);
  ASSERT_TRUE(bool(exported.step)) << exported.step.error().message;
  ASSERT_TRUE(bool(configured.step)) << configured.step.error().message;
  Totals a = totalsOf(*exported.step), b = totalsOf(*configured.step);
  EXPECT_EQ(a.trainedElements, b.trainedElements);
  EXPECT_EQ(a.trainedTensors, b.trainedTensors);
  EXPECT_EQ(a.products, b.products);
  EXPECT_EQ(a.attention, b.attention);
  EXPECT_GT(b.attention, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Exports,
                         testing::Values(Export{"gpt2", 8, 32}, Export{"llama", 8, 32}, Export{"gpt2-124m", 8, 1024},
                                         Export{"gpt2-xl", 8, 1024}, Export{"llama-7b", 8, 2048}),
                         [](const auto &info) {
                           std::string name = info.param.model;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// Writes a configuration to a temporary file that is deleted after the test.
struct Configuration {
  fs::path path = fs::temp_directory_path() / ("kerf-compiler-" + std::to_string(::getpid()) + ".json");
  explicit Configuration(const nlohmann::json &config) { std::ofstream(path) << config.dump(); }
  ~Configuration() { fs::remove(path); }
};

/// Checks the FLOP of GPT-3 with 175 billion parameters. Each weight has three products, one in the forward and two in
/// the backward pass (Kaplan et al. 2020: 6 FLOP per parameter and token). Attention has 2 products in the forward and
/// 5 in the backward pass over the S (S + 1) / 2 pairs of a causal mask.
TEST(Configured, Gpt3HasTheWorkOfTheClosedForm) {
  const double layers = 96, hidden = 12288, vocabulary = 51200, sequence = 2048, batch = 1536;
  Configuration config({{"model_type", "gpt2"},
                        {"n_layer", 96},
                        {"n_embd", 12288},
                        {"n_head", 96},
                        {"vocab_size", 51200},
                        {"n_positions", 2048}});
  Imported gpt3 = import(config.path, 1536, 2048);
  ASSERT_TRUE(bool(gpt3.step)) << gpt3.step.error().message;
  Totals totals = totalsOf(*gpt3.step);
  EXPECT_EQ(totals.products, 6 * batch * sequence * (12 * layers * hidden * hidden + vocabulary * hidden));
  EXPECT_EQ(totals.attention, layers * 7 * 2 * batch * hidden * sequence * (sequence + 1) / 2);
}

} // namespace
} // namespace kerf
