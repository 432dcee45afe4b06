// SPDX-License-Identifier: Apache-2.0
// Tests of StableHLO text: both forms, the IR of each kind of operation, and constants. HloErrorsTest.cpp tests wrong
// text.
#include "HloTexts.h"
#include "StableHlo/HloText.h"

namespace kerf {
namespace {

//===-- the text ---------------------------------------------------------===//

TEST(HloText, PrettyAndGenericFormAreOne) {
  const char *pretty = R"(
module @m attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
})";
  const char *generic = R"(
"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (tensor<4x8xf32>) -> tensor<f32>, sym_name = "main", res_attrs = [{jax.result_info = "result"}]}> ({
  ^bb0(%arg0: tensor<4x8xf32>):
    %0 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.transpose"(%arg0) <{permutation = array<i64: 1, 0>}> : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %2 = "stablehlo.dot_general"(%arg0, %1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %3 = "stablehlo.reduce"(%2, %0) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %4 = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>
    "func.return"(%3) : (tensor<f32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32} : () -> ())";
  Imported first = importText(pretty), second = importText(generic);
  expectOps(first, {"kerf.transpose", "kerf.dot_general", "kerf.reduce"});
  expectOps(second, {"kerf.transpose", "kerf.dot_general", "kerf.reduce"});
  EXPECT_EQ(first.text(), second.text());
}

TEST(HloText, NamesOfDebugInformation) {
  Imported imported = importText(R"(#loc1 = loc("params['w'][0]")
module @m {
  func.func public @main(%arg0: tensor<4xf32> loc("params['w'][0]"), %arg1: tensor<4xf32> loc(#loc2)) -> tensor<f32> {
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<4xf32> loc(#loc5)
    %c = stablehlo.constant dense<0.0> : tensor<f32> loc(#loc)
    %1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32> loc(#loc4)
    return %1 : tensor<f32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("x")
#loc3 = loc("model.py":4:12 to :27)
#loc4 = loc("jit(f)/reduce_sum"(#loc3))
#loc5 = loc("jit(f)/transpose(jvp(layer_0))/attn/mul"(callsite(#loc3 at #loc))))"
                                 "\n",
                                 {});
  expectOps(imported, {R"(kerf.name = "params.w.0", kerf.trainable)", R"(kerf.kind = "input", kerf.name = "x")"});
  std::string named;
  imported.model->module->walk([&](ir::MultiplyOp op) { named = ir::nodeName(op.getLoc()); });
  EXPECT_EQ(named, "layer_0.attn/mul");
}

/// Returns the elements of the constant `dense` of the given type, parsed from a text.
std::vector<double> constantOf(const std::string &dense, const std::string &type) {
  auto module = frontend::hlo::parse("func.func @main() { %0 = stablehlo.constant " + dense + " : " + type +
                                     "\n return %0 : " + type + " }");
  if (!module) {
    ADD_FAILURE() << module.error().message;
    return {};
  }
  auto literal = frontend::materialize(*module->functions[0].body.operations[0].find("value")->constant);
  std::vector<double> values;
  frontend::dispatch(literal->dtype(), [&](auto zero) {
    for (int64_t i = 0; i < elementsOf(literal->shape); ++i)
      values.push_back(double(literal->as<decltype(zero)>()[i]));
  });
  return values;
}

TEST(HloText, Constants) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  using V = std::vector<double>;
  EXPECT_EQ(constantOf("dense<1.5>", "tensor<2x2xf32>"), (V{1.5, 1.5, 1.5, 1.5}));
  EXPECT_EQ(constantOf("dense<[[1.0, -2.5e-1], [3.0, 0xFF800000]]>", "tensor<2x2xf32>"), (V{1, -0.25, 3, -inf}));
  EXPECT_EQ(constantOf("dense<0.1>", "tensor<f32>"), V{double(0.1f)});
  EXPECT_EQ(constantOf("dense<0.1>", "tensor<f64>"), V{0.1});
  EXPECT_EQ(constantOf("dense<0xFF80>", "tensor<bf16>"), V{-inf});
  EXPECT_EQ(constantOf("dense<1.001e-01>", "tensor<bf16>"), V{0.10009765625});
  EXPECT_EQ(constantOf("dense<0x3C00>", "tensor<f16>"), V{1});
  EXPECT_EQ(constantOf("dense<[true, false]>", "tensor<2xi1>"), (V{1, 0}));
  EXPECT_EQ(constantOf("dense<[-1, 2147483647]>", "tensor<2xi32>"), (V{-1, 2147483647}));
  EXPECT_EQ(constantOf("dense<255>", "tensor<ui8>"), V{255});
  EXPECT_EQ(constantOf("dense<[1, 18446744073709549568]>", "tensor<2xui64>"), (V{1, 18446744073709549568.0}));
  EXPECT_EQ(constantOf("dense<\"0x0000803F000000C0\">", "tensor<2xf32>"), (V{1, -2}));
  EXPECT_EQ(constantOf("dense<\"0x0000803F\">", "tensor<3xf32>"), (V{1, 1, 1})); // one element stands for all
  EXPECT_EQ(constantOf("dense<\"0x05\">", "tensor<3xi1>"), (V{1, 0, 1}));        // one bit for each element
  EXPECT_EQ(constantOf("dense<\"0x010001\">", "tensor<3xi1>"), (V{1, 0, 1}));    // one byte for each element
  EXPECT_EQ(constantOf("dense<>", "tensor<0x4xf32>"), V{});
}

TEST(HloText, WrongConstants) {
  auto message = [](const std::string &dense, const std::string &type) {
    auto module = frontend::hlo::parse("func.func @main() {\n %0 = stablehlo.constant " + dense + " : " + type +
                                       "\n return %0 : " + type + " }");
    return module ? std::string() : module.error().message;
  };
  EXPECT_NE(message("dense<[1, 2]>", "tensor<3xi32>").find("line 2, column"), std::string::npos);
  EXPECT_NE(message("dense<[1, 2, 3, 4]>", "tensor<3xi32>").find("after the 3 elements"), std::string::npos);
  EXPECT_NE(message("dense<3000000000>", "tensor<i32>").find("does not fit"), std::string::npos);
  EXPECT_EQ(message("dense<[1, 18446744073709551615]>", "tensor<2xui64>"), "");
  EXPECT_NE(message("dense<18446744073709551616>", "tensor<ui64>").find("does not fit"), std::string::npos);
  EXPECT_NE(message("dense<-1>", "tensor<ui64>").find("does not fit"), std::string::npos);
  EXPECT_NE(message("dense<0x1FFFFFFFF>", "tensor<f32>").find("more bits"), std::string::npos);
  EXPECT_NE(message("dense<\"0x00\">", "tensor<2xf32>").find("needs 8 bytes, but its string has 1"), std::string::npos);
  EXPECT_NE(message("dense<\"0x0g\">", "tensor<i8>").find("hexadecimal"), std::string::npos);
  EXPECT_NE(message("dense<maybe>", "tensor<i1>").find("neither true nor false"), std::string::npos);
  EXPECT_NE(message("dense<1>", "tensor<ui4>").find("ui4"), std::string::npos);
  EXPECT_NE(message("dense<1.0>", "tensor<complex<f32>>").find("complex<f32>"), std::string::npos);
  EXPECT_NE(message("dense_resource<__elided__>", "tensor<4xf32>").find("dense_resource"), std::string::npos);
  EXPECT_NE(message("dense<[1.0]>", "tensor<99999999999xf32>").find("fewer elements"), std::string::npos);
}

//===-- ops --------------------------------------------------------------===//

TEST(HloOps, LoopsAreWrittenOut) {
  // Two layers read from a stack and write their results to another stack, whose second element is read.
  Imported imported = importText(summed("tensor<2x4xf32>", R"(
    %c = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1.0> : tensor<4xf32>
    %z = stablehlo.constant dense<0.0> : tensor<2x4xf32>
    %0:3 = stablehlo.while(%i = %c, %x = %one, %ys = %z) : tensor<i32>, tensor<4xf32>, tensor<2x4xf32>
    cond {
      %n = stablehlo.constant dense<2> : tensor<i32>
      %more = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %k = stablehlo.constant dense<0> : tensor<i32>
      %row = stablehlo.dynamic_slice %arg0, %i, %k, sizes = [1, 4] : (tensor<2x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
      %w = stablehlo.reshape %row : (tensor<1x4xf32>) -> tensor<4xf32>
      %sum = stablehlo.add %x, %w : tensor<4xf32>
      %next = stablehlo.tanh %sum : tensor<4xf32>
      %u = stablehlo.reshape %next : (tensor<4xf32>) -> tensor<1x4xf32>
      %stack = stablehlo.dynamic_update_slice %ys, %u, %i, %k : (tensor<2x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>
      %by = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %by : tensor<i32>
      stablehlo.return %j, %next, %stack : tensor<i32>, tensor<4xf32>, tensor<2x4xf32>
    }
    %last = stablehlo.slice %0#2 [1:2, 0:4] : (tensor<2x4xf32>) -> tensor<1x4xf32>
)",
                                        "%last", "tensor<1x4xf32>", "[0, 1]"));
  ASSERT_TRUE(bool(imported.model)) << imported.model.error().message;
  std::vector<std::string> names; // names of the operators, in order
  std::vector<std::string> nodes;
  imported.model->module->walk([&](mlir::Operation *op) {
    names.push_back(op->getName().getStringRef().str());
    if (mlir::isa<ir::TanhOp>(op))
      nodes.push_back(ir::nodeName(op->getLoc()));
  });
  EXPECT_EQ(nodes, (std::vector<std::string>{"loop.0/%next", "loop.1/%next"}));
  EXPECT_EQ(names[0], "kerf.slice"); // slices of stacked parameters come first
  EXPECT_EQ(names[1], "kerf.reshape");
  EXPECT_EQ(names[2], "kerf.slice");
  EXPECT_EQ(std::count(names.begin(), names.end(), "kerf.concatenate"), 0);
}

TEST(HloOps, ReadOfAStackIsTheValueThatWasWritten) {
  Imported imported = importText(summed("tensor<4xf32>", R"(
    %z = stablehlo.constant dense<0.0> : tensor<3x4xf32>
    %c0 = stablehlo.constant dense<0> : tensor<i32>
    %c1 = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.tanh %arg0 : tensor<4xf32>
    %1 = stablehlo.reshape %0 : (tensor<4xf32>) -> tensor<1x4xf32>
    %2 = stablehlo.dynamic_update_slice %z, %1, %c1, %c0 : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %3 = stablehlo.dynamic_update_slice %2, %1, %c0, %c0 : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %4 = stablehlo.dynamic_slice %3, %c1, %c0, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %5 = stablehlo.reshape %4 : (tensor<1x4xf32>) -> tensor<4xf32>
)",
                                        "%5", "tensor<4xf32>", "[0]"));
  expectOps(imported, {"kerf.tanh"});
  std::string text = imported.text();
  for (const char *gone : {"concatenate", "slice", "reshape"})
    EXPECT_EQ(text.find(gone), std::string::npos) << gone;
}

TEST(HloOps, GatherOfOneForEachRowMayBeCutAlongTheDimension) {
  Imported imported = importText(summed("tensor<4x9xf32>", R"(
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<4x9xf32>, tensor<4x1x1xi32>) -> tensor<4x1xf32>
)",
                                        "%0", "tensor<4x1xf32>", "[0, 1]", ", %arg1: tensor<4x1x1xi32>"));
  expectOps(imported, {"kerf.take_along", "kerf.maximum", "kerf.minimum"});
}

TEST(HloOps, LookupOfRowsIsAnEmbedding) {
  const char *lookup = R"(
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 8>}> : (tensor<9x8xf32>, tensor<5x1xi32>) -> tensor<5x8xf32>
)";
  expectOps(
      importText(summed("tensor<9x8xf32>", lookup, "%0", "tensor<5x8xf32>", "[0, 1]", ", %arg1: tensor<5x1xi32>")),
      {"kerf.embedding", "kerf.maximum", "kerf.minimum"}); // an index out of range is clamped
  const char *wide = R"(
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2, 8>}> : (tensor<9x8xf32>, tensor<5x1xi32>) -> tensor<5x2x8xf32>
)";
  expectError(
      importText(summed("tensor<9x8xf32>", wide, "%0", "tensor<5x2x8xf32>", "[0, 1, 2]", ", %arg1: tensor<5x1xi32>")),
      {"line 4, column 5", "stablehlo.gather", "2 of 9"});
}

TEST(HloOps, ReductionsByAnyOfTheKnownOps) {
  for (const char *name : {"multiply", "minimum"}) {
    std::string body = std::string("    %c = stablehlo.constant dense<1.0> : tensor<f32>\n") +
                       "    %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo." + name +
                       " across dimensions = [1] : (tensor<4x7xf32>, tensor<f32>) -> tensor<4xf32>\n";
    expectOps(importText(summed("tensor<4x7xf32>", body, "%0", "tensor<4xf32>", "[0]")),
              {name == std::string("multiply") ? "kerf.multiply" : "kerf.minimum"});
  }
  const char *two = R"(
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %i = stablehlo.iota dim = 0 : tensor<4xi32>
    %j = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%arg0 init: %c), (%i init: %j) across dimensions = [0] : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%p: tensor<i32>, %q: tensor<i32>)  {
      stablehlo.return %a, %p : tensor<f32>, tensor<i32>
    }
    %1 = stablehlo.broadcast_in_dim %0#0, dims = [] : (tensor<f32>) -> tensor<4xf32>
)";
  expectError(importText(summed("tensor<4xf32>", two, "%1", "tensor<4xf32>", "[0]")),
              {"line 7, column 5", "2 tensors at once", "argmax"});
}

/// Returns a text with JAX's argmax or argmin (comparison `comparison`) of each row, with indices along dimension `along`.
std::string placeOfExtreme(const std::string &comparison, const std::string &init, int along = 1) {
  return "    %c = stablehlo.constant dense<" + init + R"(> : tensor<f32>
    %j = stablehlo.constant dense<0> : tensor<i32>
    %i = stablehlo.iota dim = )" +
         std::to_string(along) + R"( : tensor<2x4xi32>
    %0:2 = stablehlo.reduce(%v init: %c), (%i init: %j) across dimensions = [1] : (tensor<2x4xf32>, tensor<2x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%p: tensor<i32>, %q: tensor<i32>)  {
      %2 = stablehlo.compare )" +
         comparison + R"(, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %p, %q, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %a, %b : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %p, %q : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    %1 = stablehlo.convert %0#1 : (tensor<2xi32>) -> tensor<2xf32>
    %sum = stablehlo.add %arg0, %1 : tensor<2xf32>
)";
}

TEST(HloOps, PlacesOfExtremes) {
  auto places = [](const std::string &values, const std::string &comparison, const std::string &init) {
    Imported imported = importText(
        summed("tensor<2xf32>",
               "    %v = stablehlo.constant dense<" + values + "> : tensor<2x4xf32>\n" + placeOfExtreme(comparison, init),
               "%sum", "tensor<2xf32>", "[0]"));
    EXPECT_TRUE(bool(imported.model)) << imported.model.error().message;
    std::vector<double> found;
    if (imported.model)
      imported.model->module->walk([&](ir::ConstantOp constant) {
        for (const llvm::APFloat &value :
             llvm::cast<mlir::DenseElementsAttr>(constant.getValue()).getValues<llvm::APFloat>())
          found.push_back(value.convertToFloat());
      });
    return found;
  };
  const std::string values = "[[1.0, 7.0, 7.0, -2.0], [3.0, -5.0, 0.0, -5.0]]";
  EXPECT_EQ(places(values, "GT", "0xFF800000"), (std::vector<double>{1, 0})) << "the first of equal ones";
  EXPECT_EQ(places(values, "LT", "0x7F800000"), (std::vector<double>{3, 1}));
  EXPECT_EQ(places("[[1.0, 0x7FC00000, 9.0, 0x7FC00000], [0xFF800000, 0xFF800000, 0.0, 1.0]]", "GT", "0xFF800000"),
            (std::vector<double>{1, 3}))
      << "the first NaN";
  auto refused = [](const std::string &body) {
    expectError(importText(summed("tensor<2xf32>", "    %v = stablehlo.constant dense<1.0> : tensor<2x4xf32>\n" + body,
                                  "%sum", "tensor<2xf32>", "[0]")),
                {"stablehlo.reduce", "argmax and argmin along one dimension"});
  };
  refused(placeOfExtreme("GE", "0xFF800000"));
  refused(placeOfExtreme("GT", "0.0"));
  refused(placeOfExtreme("GT", "0xFF800000", 0));
}

TEST(HloOps, ConversionsToNarrowFormatsRound) {
  auto through = [](const std::string &there, const std::string &format) {
    return importText(summed("tensor<2x4xf32>",
                             "    %0 = stablehlo.convert %arg0 : (tensor<2x4xf32>) -> tensor<2x4x" + format + ">\n" +
                                 there + "    %9 = stablehlo.convert %1 : (tensor<4x2x" + format +
                                 ">) -> tensor<4x2xf32>\n",
                             "%9", "tensor<4x2xf32>", "[0, 1]"));
  };
  const struct {
    const char *format, *attributes;
  } rows[] = {{"f8E4M3FN", "mantissa_bits = 3 : i64, min_exponent = -6 : i64"},
              {"f8E4M3FNUZ", "mantissa_bits = 3 : i64, min_exponent = -7 : i64"},
              {"f8E5M2", "mantissa_bits = 2 : i64, min_exponent = -14 : i64"},
              {"f8E5M2FNUZ", "mantissa_bits = 2 : i64, min_exponent = -15 : i64"},
              {"f4E2M1FN", "mantissa_bits = 1 : i64, min_exponent = 0 : i64"}};
  for (const auto &row : rows) {
    std::string type = "tensor<2x4x" + std::string(row.format) + ">",
                turned = "tensor<4x2x" + std::string(row.format) + ">";
    expectOps(
        through("    %1 = stablehlo.transpose %0, dims = [1, 0] : (" + type + ") -> " + turned + "\n", row.format),
        {"kerf.reduce_precision", row.attributes, "kerf.transpose"});
    expectError(through("    %2 = stablehlo.add %0, %0 : " + type + "\n    %1 = stablehlo.reshape %2 : (" + type +
                            ") -> " + turned + "\n",
                        row.format),
                {"line 4, column 5", "stablehlo.add", "reads " + std::string(row.format), "convert"});
    expectError(through("    %1 = stablehlo.reshape %arg0 : (tensor<2x4xf32>) -> " + turned + "\n", row.format),
                {"line 4, column 5", turned, "only convert"});
    expectError(importText(summed("tensor<4x" + std::string(row.format) + ">",
                                  "    %0 = stablehlo.convert %arg0 : (tensor<4x" + std::string(row.format) +
                                      ">) -> tensor<4xf32>\n",
                                  "%0", "tensor<4xf32>", "[0]", ", %arg1: tensor<4xf32>"),
                           {"arg1"}),
                {"argument 0", row.format, "f32"});
  }
  expectError(through("    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x4xf8E3M4>) -> tensor<4x2xf8E3M4>\n",
                      "f8E3M4"),
              {"line 3, column 5", "f8E3M4"});
}

TEST(HloOps, PrecisionIsReducedWhereKerfHasNoSuchType) {
  auto reduced = [](const std::string &format) {
    return importText(summed("tensor<4xf32>",
                             "    %0 = stablehlo.reduce_precision %arg0, " + format + " : tensor<4xf32>\n", "%0",
                             "tensor<4xf32>", "[0]"));
  };
  expectOps(reduced("format = e5m2"), {"kerf.reduce_precision", "mantissa_bits = 2 : i64", "kerf.select"});
  for (const char *format : {"e5m10", "e8m7", "e8m23", "e11m52"}) {
    Imported same = reduced(std::string("format = ") + format);
    expectOps(same, {"kerf.reduce"});
    EXPECT_EQ(same.text().find("reduce_precision"), std::string::npos) << format;
  }
  for (const char *format : {"e1m2", "e9m2", "e5m24"})
    expectError(reduced(std::string("format = ") + format), {"line 3, column 5", "exponent bits", "mantissa bits"});
  for (const char *format : {"e5", "m5e2", "e5m2x", "half"})
    expectError(reduced(std::string("format = ") + format), {"line 3, column 5"});
}

TEST(HloOps, AnglesAreFormulasOfTheArctangent) {
  for (const char *op : {"chlo.asin", "chlo.acos", "chlo.atan"})
    expectOps(
        importText(summed("tensor<4xf32>", std::string("    %0 = ") + op + " %arg0 : tensor<4xf32> -> tensor<4xf32>\n",
                          "%0", "tensor<4xf32>", "[0]")),
        {"kerf.atan"});
  expectOps(importText(summed("tensor<4xf32>", "    %0 = stablehlo.atan2 %arg0, %arg1 : tensor<4xf32>\n", "%0",
                              "tensor<4xf32>", "[0]", ", %arg1: tensor<4xf32>")),
            {"kerf.atan", "kerf.select"});
}

//===-- what is refused --------------------------------------------------===//

TEST(HloOps, Windows) {
  Imported imported = importText(windows());
  expectOps(imported,
            {"kerf.convolution", "kerf.reduce_window", "kerf.select_and_scatter", "kind = #kerf<reduce_kind max>"});
  std::vector<double> kernel; // [o, i, 0], turned
  imported.model->module->walk([&](ir::ConvolutionOp op) {
    EXPECT_EQ(llvm::to_vector(op.getStrides()), llvm::SmallVector<int64_t>{2});
    EXPECT_EQ(llvm::to_vector(op.getLow()), llvm::SmallVector<int64_t>{0}); // what -1 takes is sliced off
    EXPECT_EQ(llvm::to_vector(op.getHigh()), llvm::SmallVector<int64_t>{1});
    EXPECT_EQ(ir::shapeOf(op.getOperand()), (Shape{2, 3, 5}));
    auto spread = op.getKernel().getDefiningOp<ir::BroadcastInDimOp>(); // along the dimension of size 1
    auto constant = spread ? spread.getOperand().getDefiningOp<ir::ConstantOp>() : ir::ConstantOp();
    ASSERT_TRUE(constant);
    for (const llvm::APFloat &value :
         llvm::cast<mlir::DenseElementsAttr>(constant.getValue()).getValues<llvm::APFloat>())
      kernel.push_back(value.convertToFloat());
  });
  EXPECT_EQ(kernel, (std::vector<double>{2, 1, 4, 3, 6, 5}));
}

/// [2, 3, 4, 5, 6] in windows of `attributes` of `size` results, multiplied.
std::vector<double> windowProducts(const std::string &attributes, const std::string &size) {
  std::string type = "tensor<" + size + "xf32>";
  Imported imported = importText(summed("tensor<" + size + "xf32>", R"(
    %c = stablehlo.constant dense<[2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<5xf32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %p = "stablehlo.reduce_window"(%c, %one) <{)" + attributes + R"(}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %ab = stablehlo.multiply %a, %b : tensor<f32>
      stablehlo.return %ab : tensor<f32>
    }) : (tensor<5xf32>, tensor<f32>) -> )" + type + R"(
    %0 = stablehlo.add %arg0, %p : )" + type + "\n",
                                        "%0", type, "[0]"));
  EXPECT_TRUE(bool(imported.model)) << imported.model.error().message;
  std::vector<double> values;
  if (imported.model)
    imported.model->module->walk([&](ir::ConstantOp constant) {
      for (const llvm::APFloat &value :
           llvm::cast<mlir::DenseElementsAttr>(constant.getValue()).getValues<llvm::APFloat>())
        values.push_back(value.convertToFloat());
    });
  return values;
}

TEST(HloOps, WindowsMayMultiply) {
  EXPECT_EQ(windowProducts("window_dimensions = array<i64: 5>, padding = dense<[[4, 0]]> : tensor<1x2xi64>", "5"),
            (std::vector<double>{2, 6, 24, 120, 720}));
  EXPECT_EQ(
      windowProducts("window_dimensions = array<i64: 3>, window_strides = array<i64: 2>, padding = dense<[[0, 1]]>"
                     " : tensor<1x2xi64>",
                     "2"),
      (std::vector<double>{24, 120}));
  EXPECT_EQ(windowProducts("window_dimensions = array<i64: 2>, window_dilations = array<i64: 3>, padding = "
                           "dense<[[-1, 1]]> : tensor<1x2xi64>",
                           "2"),
            (std::vector<double>{18, 4}));
}

} // namespace
} // namespace kerf
