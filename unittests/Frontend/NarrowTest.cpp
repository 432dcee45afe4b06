// SPDX-License-Identifier: Apache-2.0
// Formats of 8, 4 and 2 bits: every pattern of bits and every rounding against LLVM's own floating formats, how files
// hold them, and who may read them.
#include "Common/Narrow.h"
#include "Terms.h"

#include "llvm/ADT/APFloat.h"
#include <cmath>
#include <random>

namespace kerf {
namespace {

using namespace frontend;
using llvm::APFloat;

enum Number { E4M3FN = 17, E4M3FNUZ, E5M2, E5M2FNUZ, UInt4, Int4, E2M1, UInt2 = 25, Int2 };

struct Floating {
  Number number;
  const llvm::fltSemantics &semantics;
};
const Floating kFloating[] = {{E4M3FN, APFloat::Float8E4M3FN()},
                              {E4M3FNUZ, APFloat::Float8E4M3FNUZ()},
                              {E5M2, APFloat::Float8E5M2()},
                              {E5M2FNUZ, APFloat::Float8E5M2FNUZ()},
                              {E2M1, APFloat::Float4E2M1FN()}};

double asDouble(APFloat number) {
  bool inexact;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
  return number.convertToDouble();
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

std::vector<double> narrowed(Constants &constants, Number format, DType from, const std::vector<double> &values,
                             Saturate saturate = Saturate::Yes) {
  Result<Term> made = toNarrow(*constants.terms, *narrowFormat(format), constants.vector(from, values), saturate);
  EXPECT_TRUE(bool(made));
  EXPECT_EQ(made->narrow, narrowFormat(format));
  return Constants::valuesOf(*made);
}

TEST(Narrow, EveryPatternIsLlvmsNumber) {
  for (const Floating &format : kFloating) {
    unsigned bits = APFloat::semanticsSizeInBits(format.semantics);
    ASSERT_EQ(unsigned(narrowFormat(format.number)->bits), bits);
    for (unsigned pattern = 0; pattern < 1u << bits; ++pattern) {
      double expected = asDouble(APFloat(format.semantics, llvm::APInt(bits, pattern)));
      double got = decoded(*narrowFormat(format.number), pattern);
      EXPECT_TRUE(same(got, expected)) << format.number << " " << pattern << ": " << got << ", not " << expected;
    }
  }
  for (unsigned pattern = 0; pattern < 16; ++pattern) {
    EXPECT_EQ(decoded(*narrowFormat(UInt4), pattern), pattern);
    EXPECT_EQ(decoded(*narrowFormat(Int4), pattern), pattern < 8 ? int(pattern) : int(pattern) - 16);
  }
  for (unsigned pattern = 0; pattern < 4; ++pattern) {
    EXPECT_EQ(decoded(*narrowFormat(UInt2), pattern), pattern);
    EXPECT_EQ(decoded(*narrowFormat(Int2), pattern), pattern < 2 ? int(pattern) : int(pattern) - 4);
  }
  for (int other : {0, 1, 16, 24, 27})
    EXPECT_EQ(narrowFormat(other), nullptr);
}

TEST(Narrow, RoundingIsLlvms) {
  std::mt19937_64 random(11);
  for (DType dtype : {DType::F64, DType::F32}) {
    Constants constants(dtype);
    for (const Floating &format : kFloating) {
      // Every number, what lies halfway to the next and next to that, and beyond the largest.
      std::vector<double> numbers, values{0.0, -0.0, kInf, -kInf, 1e30, -1e30};
      unsigned bits = APFloat::semanticsSizeInBits(format.semantics);
      for (unsigned pattern = 0; pattern < 1u << (bits - 1); ++pattern)
        if (double number = decoded(*narrowFormat(format.number), pattern); std::isfinite(number))
          numbers.push_back(number);
      double largest = numbers.back();
      numbers.push_back(2 * largest - numbers[numbers.size() - 2]);
      numbers.push_back(4 * largest);
      for (size_t i = 0; i + 1 < numbers.size(); ++i)
        for (double at : {numbers[i], (numbers[i] + numbers[i + 1]) / 2})
          for (double near : {at, double(std::nextafterf(float(at), 1e30f)), double(std::nextafterf(float(at), 0.0f))})
            values.insert(values.end(), {near, -near});
      for (int i = 0; i < 2000; ++i)
        values.push_back(std::ldexp(std::normal_distribution<float>()(random), int(random() % 36) - 18));
      std::vector<double> got = narrowed(constants, format.number, dtype, values, Saturate::No),
                          saturated = narrowed(constants, format.number, dtype, values);
      for (size_t i = 0; i < values.size(); ++i) {
        APFloat rounded(values[i]);
        bool inexact;
        rounded.convert(format.semantics, APFloat::rmNearestTiesToEven, &inexact);
        double expected = asDouble(rounded);
        if (format.number == E2M1 && std::isinf(expected)) // LLVM leaves them
          expected = std::copysign(largest, expected);
        EXPECT_TRUE(same(got[i], expected))
            << format.number << " " << values[i] << ": " << got[i] << ", not " << expected;
        if (!std::isfinite(expected))
          expected = values[i] < 0 ? -largest : largest;
        EXPECT_TRUE(same(saturated[i], expected)) << format.number << " " << values[i] << ": " << saturated[i];
      }
      EXPECT_EQ(std::isnan(narrowed(constants, format.number, dtype, {kNan})[0]), format.number != E2M1);
    }
  }
}

TEST(Narrow, WholeNumbersKeepTheirLowBits) {
  Constants constants(DType::F32);
  const std::vector<double> values{-17, -9, -8, -1, 0, 1, 2, 7, 8, 15, 16, 100};
  std::vector<double> kept[4];
  for (double value : values) {
    int bits = int(value) & 15;
    kept[0].push_back(bits);
    kept[1].push_back(bits < 8 ? bits : bits - 16);
    kept[2].push_back(bits & 3);
    kept[3].push_back((bits & 3) < 2 ? bits & 3 : (bits & 3) - 4);
  }
  const Number formats[] = {UInt4, Int4, UInt2, Int2};
  for (int i = 0; i < 4; ++i)
    for (DType from : {DType::F32, DType::F64, DType::I64, DType::I32, DType::I8})
      EXPECT_EQ(narrowed(constants, formats[i], from, values), kept[i]) << i << " from " << toString(from);
  EXPECT_EQ(narrowed(constants, Int4, DType::U8, {200, 255}), (std::vector<double>{-8, -1}));
  EXPECT_EQ(narrowed(constants, Int4, DType::Bool, {1, 0}), (std::vector<double>{1, 0}));
  EXPECT_EQ(narrowed(constants, Int4, DType::F32, {2.9, -2.9}), (std::vector<double>{2, -2})); // truncated
}

//===-- files ------------------------------------------------------------===//

onnx::TensorProto *addNarrow(Graph &g, const std::string &name, Number format, const Shape &shape,
                             const std::string &raw) {
  onnx::TensorProto *tensor = g.graph->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(format);
  for (int64_t size : shape)
    tensor->add_dims(size);
  if (!raw.empty())
    tensor->set_raw_data(raw);
  return tensor;
}

/// x + Cast(w) for a parameter x.
Graph cast(Number format, const Shape &shape, const std::string &raw) {
  Graph g(23);
  addNarrow(g, "w", format, shape, raw);
  std::string wide = g.op("Cast", {"w"}, {{"to", onnx::TensorProto::FLOAT}});
  g.sumIsLoss(g.op("Add", {g.parameter("x", shape), wide}));
  return g;
}

void expectValues(Imported result, const std::vector<float> &expected) {
  ASSERT_TRUE(bool(result.model)) << result.model.error().message;
  auto adds = result.ops<ir::AddOp>();
  ASSERT_EQ(adds.size(), 1u);
  auto constant = adds[0].getRhs().getDefiningOp<ir::ConstantOp>();
  ASSERT_TRUE(constant) << result.text();
  auto values = mlir::cast<mlir::DenseElementsAttr>(constant.getValue()).getValues<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), expected);
}

TEST(Narrow, FilesHoldElementsPacked) {
  struct Case {
    Number format;
    std::string raw;
    std::vector<float> values;
  };
  const Case cases[] = {{E4M3FN, "\x38\xb8\x7e", {1, -1, 448}},
                        {E5M2FNUZ, "\x40\x01\xff", {1, 0x1p-17f, -57344}},
                        {Int4, "\x8f\x07", {-1, -8, 7}},
                        {UInt4, "\x8f\x07", {15, 8, 7}},
                        {E2M1, "\x9f\x07", {-6, -0.5f, 6}},
                        {Int2, "\x1e", {-2, -1, 1}},
                        {UInt2, "\x1e", {2, 3, 1}}};
  for (const Case &one : cases) {
    SCOPED_TRACE(one.format);
    expectValues(importGraph(cast(one.format, {3}, one.raw)), one.values);
    Graph typed = cast(one.format, {3}, "");
    onnx::TensorProto *w = typed.graph->mutable_initializer(0);
    for (char byte : one.raw)
      w->add_int32_data(static_cast<unsigned char>(byte));
    expectValues(importGraph(typed), one.values);
    w->add_int32_data(0);
    expectError(importGraph(typed), {"'w'", "[3]", std::string(narrowFormat(one.format)->name), "entries of int32_data",
                                     std::to_string(one.raw.size()), std::to_string(one.raw.size() + 1)});
    for (const std::string &wrong : {one.raw.substr(1) + (one.raw.size() == 1 ? "12" : ""), one.raw + "1"})
      expectError(importGraph(cast(one.format, {3}, wrong)),
                  {"'w'", std::to_string(one.raw.size()) + " bytes", "has " + std::to_string(wrong.size())});

    TemporaryFolder folder;
    Graph external = cast(one.format, {3}, "");
    w = external.graph->mutable_initializer(0);
    w->set_data_location(1);
    auto say = [&](const char *key, const std::string &value) {
      onnx::StringPair *pair = w->add_external_data();
      pair->set_key(key);
      pair->set_value(value);
    };
    say("location", "w.bin");
    say("offset", "2");
    expectError(importFile(external.write(folder.path)), {"'w'", "does not exist"});
    std::ofstream(folder.path / "w.bin", std::ios::binary) << "ab" << one.raw;
    expectValues(importFile(external.write(folder.path)), one.values);
    std::ofstream(folder.path / "w.bin", std::ios::binary) << "ab" << one.raw.substr(1);
    expectError(importFile(external.write(folder.path)), {"'w'", "truncated"});
    say("length", std::to_string(one.raw.size() + 1));
    expectError(importFile(external.write(folder.path)), {"'w'", std::to_string(one.raw.size()) + " bytes"});
  }
}

TEST(Narrow, EveryByteDamagedGivesNoCrash) {
  TemporaryFolder folder;
  Graph typed = cast(Int4, {3}, "");
  typed.graph->mutable_initializer(0)->add_int32_data(0x8f);
  typed.graph->mutable_initializer(0)->add_int32_data(7);
  for (const Graph &g : {cast(UInt2, {3}, "\x1e"), cast(E5M2, {3}, "123"), typed})
    importDamaged(g.model.SerializeAsString());
}

TEST(Narrow, CastsThatSaySoReadThem) {
  Graph g(23);
  g.input("x", {4});
  std::string narrow = g.op("Identity", {g.op("Cast", {"x"}, {{"to", E4M3FN}})});
  std::string wide = g.op("Cast", {narrow}, {{"to", onnx::TensorProto::FLOAT}});
  g.sumIsLoss(g.op("Mul", {wide, g.parameter("w", {4})}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << result.model.error().message;
  auto rounds = result.ops<ir::ReducePrecisionOp>();
  ASSERT_EQ(rounds.size(), 1u);
  EXPECT_EQ(rounds[0].getMantissaBits(), 3u);
  EXPECT_EQ(int64_t(rounds[0].getMinExponent()), -6);

  Graph like(23);
  like.input("x", {4});
  addNarrow(like, "like", Int4, {0}, "");
  std::string low = like.op("Cast", {like.op("CastLike", {"x", "like"})}, {{"to", onnx::TensorProto::FLOAT}});
  like.sumIsLoss(like.op("Mul", {low, like.parameter("w", {4})}));
  Imported lowBits = importGraph(like);
  ASSERT_TRUE(bool(lowBits.model)) << lowBits.model.error().message;
  EXPECT_EQ(lowBits.ops<ir::AndOp>().size(), 2u);
}

TEST(Narrow, ConstantsInNodesAreDecoded) {
  for (const char *op : {"Constant", "ConstantOfShape"}) {
    Graph g(23);
    bool isFilled = std::string(op) == "ConstantOfShape";
    onnx::NodeProto *node =
        g.node(op, isFilled ? std::vector<std::string>{g.integers({3})} : std::vector<std::string>{}, {"c"});
    onnx::AttributeProto *value = node->add_attribute();
    value->set_name("value");
    value->set_type(onnx::AttributeProto::TENSOR);
    value->mutable_t()->set_data_type(Int4);
    value->mutable_t()->add_dims(isFilled ? 1 : 3);
    value->mutable_t()->set_raw_data(isFilled ? "\x0e" : "\x8f\x07");
    std::string wide = g.op("Cast", {"c"}, {{"to", onnx::TensorProto::FLOAT}});
    Graph unread = g;
    g.sumIsLoss(g.op("Add", {g.parameter("x", {3}), wide}));
    Imported result = importGraph(g);
    ASSERT_TRUE(bool(result.model)) << result.model.error().message;
    auto adds = result.ops<ir::AddOp>();
    ASSERT_EQ(adds.size(), 1u);
    if (!isFilled)
      expectValues(std::move(result), {-1, -8, 7});
    unread.sumIsLoss(unread.op("Gather", {unread.parameter("x", {3}), "c"}));
    expectError(importGraph(unread), {"(Gather)", "'c'", "INT4"});
  }
}

/// Input data may hold numbers that the format cannot represent.
TEST(Narrow, InputsAreRounded) {
  Graph g(23);
  g.input("x", {4}, E5M2);
  g.input("n", {4}, UInt4);
  std::string x = g.op("Cast", {"x"}, {{"to", onnx::TensorProto::FLOAT}}),
              n = g.op("Cast", {"n"}, {{"to", onnx::TensorProto::FLOAT}});
  g.sumIsLoss(g.op("Mul", {g.op("Mul", {x, n}), g.parameter("w", {4})}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << result.model.error().message;
  EXPECT_EQ(result.ops<ir::ReducePrecisionOp>().size(), 1u);
  EXPECT_EQ(result.ops<ir::AndOp>().size(), 1u);
  EXPECT_EQ(result.text().find("ui8") == std::string::npos, false);
}

TEST(Narrow, OthersDoNotReadThem) {
  for (const char *op : {"Add", "Mul", "Max", "Equal"}) {
    Graph g(23);
    g.parameter("x", {3});
    addNarrow(g, "w", E4M3FN, {3}, "123");
    g.sumIsLoss(g.op("Cast", {g.op(op, {"x", "w"})}, {{"to", onnx::TensorProto::FLOAT}}));
    expectError(importGraph(g), {std::string("(") + op + ")", "operand 1 ('w')", "FLOAT8E4M3FN", "cast it"});
  }
  Graph whole(23);
  whole.parameter("x", {3});
  addNarrow(whole, "w", Int4, {3}, "12");
  whole.sumIsLoss(whole.op("Gather", {"x", "w"}));
  expectError(importGraph(whole), {"operand 1 ('w')", "INT4", "int8"});
  Graph loss(23);
  loss.parameter("x", {});
  loss.op("Cast", {"x"}, {{"to", E4M3FN}}, "loss");
  loss.output("loss", {});
  expectError(importGraph(loss), {"'loss'", "FLOAT8E4M3FN"});
}

TEST(Narrow, TheyAreNoParameters) {
  Graph g = cast(E4M3FN, {3}, "123");
  ImportOptions options;
  options.trainable = {"w"};
  expectError(importGraph(g, options), {"<trainable> 'w'", "FLOAT8E4M3FN"});
  TemporaryFolder folder;
  auto [tensor, bytes] = allocateTensor(DType::F32, {3});
  ASSERT_TRUE(bool(writeSafetensors((folder.path / "new.safetensors").string(), {{"w", tensor}})));
  ImportOptions weights;
  weights.weights = (folder.path / "new.safetensors").string();
  expectError(importGraph(g, weights), {"<weights>", "'w'", "FLOAT8E4M3FN"});
  options.trainable = {"*"};
  Imported result = importGraph(g, options);
  ASSERT_TRUE(bool(result.model)) << result.model.error().message;
  EXPECT_EQ(result.arguments("parameter"), std::vector<std::string>{"x*"});

  onnx::ValueInfoProto *info = g.graph->add_value_info();
  info->set_name("w");
  onnx::StringPair *pair = info->add_metadata_props();
  pair->set_key("pkg.torch.export.graph_signature.InputSpec.kind");
  pair->set_value("PARAMETER");
  options.trainable = {"x"};
  Imported said = importGraph(g, options);
  ASSERT_TRUE(bool(said.model)) << said.model.error().message;
  ASSERT_EQ(said.model->warnings.size(), 1u);
  EXPECT_NE(said.model->warnings[0].find("w (FLOAT8E4M3FN)"), std::string::npos) << said.model->warnings[0];
}

} // namespace
} // namespace kerf
