// SPDX-License-Identifier: Apache-2.0
// The lowering to shards of ops whose attributes contain sizes or positions, on the mesh <"x"=2, "y"=3>.
#include "Samples.h"
#include "kerf/Dialect/Kerf/TakeAlong.h"

#include "mlir/IR/Verifier.h"
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::ir;
using namespace kerf::ir::test;

namespace {

const Mesh kMesh{{{"x", 2}, {"y", 3}}};

mlir::RankedTensorType localType(mlir::Value value, const Sharding &sharding) {
  return mlir::RankedTensorType::get(localShape(shapeOf(value), sharding), tensorType(value).getElementType());
}

/// Returns the op that computes the local result where mesh axis a shards factor strategy[a]; null where lowering or
/// verification fails.
mlir::Operation *localize(Sample &sample, const Strategy &strategy) {
  auto op = llvm::dyn_cast<ShardingRuleOpInterface>(sample.op);
  std::optional<OpSharding> sharding = op ? project(op.getShardingRule(), kMesh, strategy) : std::nullopt;
  if (!sharding)
    return nullptr;
  mlir::SmallVector<mlir::Value> operands;
  for (auto [i, operand] : llvm::enumerate(sample.op->getOperands()))
    operands.push_back(sample.body->addArgument(localType(operand, sharding->operands[i]), sample.op->getLoc()));
  mlir::SmallVector<mlir::Type> types;
  for (auto [i, result] : llvm::enumerate(sample.op->getResults()))
    types.push_back(localType(result, sharding->results[i]));
  mlir::OpBuilder builder(sample.body->getTerminator());
  auto results = op.localize(builder, operands, types, {kMesh, *sharding});
  bool isWhole = succeeded(results) && results->size() == types.size() && results->front().getType() == types.front();
  bool isValid = llvm::all_of(*sample.body, [](mlir::Operation &made) { return succeeded(mlir::verify(&made)); });
  return isWhole && isValid ? results->front().getDefiningOp() : nullptr;
}

TEST(LocalizeTest, ASliceTakesAllOfWhatIsCut) {
  Context context;
  // The 8 rows are sharded by y, 3 on each rank (2 on the last one); of the columns, which are not sharded, 2 to
  // 6 are taken.
  Sample sample = parseSample(
      context, "%x: tensor<8x8xf32>",
      "%y = kerf.slice %x {start = array<i64: 0, 2>, limit = array<i64: 8, 6>, strides = array<i64: 1, 2>} : "
      "(tensor<8x8xf32>) -> tensor<8x2xf32>");
  ASSERT_TRUE(sample.op);
  auto local = llvm::dyn_cast_or_null<SliceOp>(localize(sample, {{-1, 0}}));
  ASSERT_TRUE(local);
  EXPECT_EQ(local.getStart(), (llvm::ArrayRef<int64_t>{0, 2}));
  EXPECT_EQ(local.getLimit(), (llvm::ArrayRef<int64_t>{3, 6}));
  EXPECT_EQ(shapeOf(local.getResult()), (Shape{3, 2}));
  EXPECT_FALSE(localize(sample, {{1, -1}})) << "the sliced dimension may not be cut";
}

TEST(LocalizeTest, ALookupKnowsTheRanksPiece) {
  Context context;
  // The 5 batch entries are sharded by the 2 ranks of x, the 8 indices by the 3 ranks of y.
  Sample sample = parseSample(context, "%x: tensor<5x8xf32>, %i: tensor<5x2xi64>",
                              "%y = kerf.take_along %x, %i {batch_dims = 1 : i64, size = 8 : i64} : (tensor<5x8xf32>, "
                              "tensor<5x2xi64>) -> tensor<5x2xf32>");
  ASSERT_TRUE(sample.op);
  auto local = llvm::dyn_cast_or_null<TakeAlongOp>(localize(sample, {{0, 1}}));
  ASSERT_TRUE(local);
  EXPECT_EQ(shapeOf(local.getOperand()), (Shape{3, 3}));
  EXPECT_EQ(shapeOf(local.getIndices()), (Shape{3, 2}));
  EXPECT_EQ(local.getSize(), 8u);
  ASSERT_TRUE(local.getOffset() && local.getOffset().getDefiningOp<ShardOffsetOp>());
  EXPECT_TRUE(local.getIndices().getDefiningOp<MaskPaddingOp>()) << "an index in the padding must not end the run";
  auto whole = llvm::dyn_cast_or_null<TakeAlongOp>(localize(sample, {{0, -1}}));
  ASSERT_TRUE(whole);
  EXPECT_FALSE(whole.getOffset());
}

TEST(LocalizeTest, AnIotaStartsAtTheRanksPiece) {
  Context context;
  for (bool hasOffset : {false, true}) {
    Sample sample = parseSample(context, "%o: tensor<i32>",
                                hasOffset ? "%y = kerf.iota %o {dimension = 1 : i64} : (tensor<i32>) -> tensor<4x8xi32>"
                                          : "%y = kerf.iota {dimension = 1 : i64} : () -> tensor<4x8xi32>");
    ASSERT_TRUE(sample.op);
    auto local = llvm::dyn_cast_or_null<IotaOp>(localize(sample, {{0, 1}}));
    ASSERT_TRUE(local);
    EXPECT_EQ(shapeOf(local.getResult()), (Shape{2, 3}));
    ASSERT_TRUE(local.getOffset());
    mlir::Operation *offset = local.getOffset().getDefiningOp();
    if (hasOffset) {
      ASSERT_TRUE(llvm::isa_and_nonnull<AddOp>(offset));
      offset = offset->getOperand(1).getDefiningOp();
    }
    auto begin = llvm::dyn_cast_or_null<ShardOffsetOp>(offset);
    ASSERT_TRUE(begin);
    EXPECT_EQ(begin.getAxes(), (llvm::ArrayRef<int64_t>{1, 1, 3})); // axis y, whole
    EXPECT_EQ(begin.getChunk(), 3u);
  }
  // Where only the other dimension is sharded, every shard counts from 0.
  Sample sample = parseSample(context, "", "%y = kerf.iota {dimension = 1 : i64} : () -> tensor<4x8xi32>");
  ASSERT_TRUE(sample.op);
  auto local = llvm::dyn_cast_or_null<IotaOp>(localize(sample, {{0, -1}}));
  ASSERT_TRUE(local);
  EXPECT_FALSE(local.getOffset());
}

TEST(LocalizeTest, ADropoutKnowsThePlaceOfItsPiece) {
  Context context;
  const std::string arguments = "%x: tensor<4x8x5xf32>, %n: tensor<i64>",
                    text = "%y = kerf.dropout %x, %n, %n, %n {rate = 0.1 : f64} : (tensor<4x8x5xf32>, tensor<i64>, "
                           "tensor<i64>, tensor<i64>) -> tensor<4x8x5xf32>";
  // Rows are sharded by x, 2 of 40 elements each; columns by y, 3 of 5 elements each.
  Sample sample = parseSample(context, arguments, text);
  ASSERT_TRUE(sample.op);
  auto local = llvm::dyn_cast_or_null<DropoutOp>(localize(sample, {{0, 1}}));
  ASSERT_TRUE(local && local.getOffset());
  EXPECT_EQ(shapeOf(local.getResult()), (Shape{2, 3, 5}));
  EXPECT_EQ(local.getSizes(), (llvm::ArrayRef<int64_t>{4, 8, 5}));
  auto sum = local.getOffset().getDefiningOp<AddOp>();
  ASSERT_TRUE(sum);
  auto columns = sum.getLhs().getDefiningOp<ShardOffsetOp>(), rows = sum.getRhs().getDefiningOp<ShardOffsetOp>();
  ASSERT_TRUE(columns && rows);
  EXPECT_EQ(columns.getAxes(), (llvm::ArrayRef<int64_t>{1, 1, 3}));
  EXPECT_EQ(columns.getChunk(), 15u);
  EXPECT_EQ(rows.getAxes(), (llvm::ArrayRef<int64_t>{0, 1, 2}));
  EXPECT_EQ(rows.getChunk(), 80u);
  // Without sharding, the op stays the same.
  Sample whole = parseSample(context, arguments, text);
  local = llvm::dyn_cast_or_null<DropoutOp>(localize(whole, {{-1, -1}}));
  ASSERT_TRUE(local);
  EXPECT_FALSE(local.getOffset() || local.getSizes());
}

TEST(LocalizeTest, ASplatIsASplatOfTheLocalShape) {
  Context context;
  Sample sample = parseSample(context, "", "%y = kerf.constant dense<1.5> : tensor<4x8xf32>");
  ASSERT_TRUE(sample.op);
  auto local = llvm::dyn_cast_or_null<ConstantOp>(localize(sample, {{0, 1}}));
  ASSERT_TRUE(local);
  EXPECT_EQ(shapeOf(local.getResult()), (Shape{2, 3}));
  EXPECT_EQ(llvm::cast<mlir::DenseElementsAttr>(local.getValue()).getSplatValue<float>(), 1.5f);
  Sample other = parseSample(context, "", "%y = kerf.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>");
  ASSERT_TRUE(other.op);
  EXPECT_TRUE(localize(other, {{-1, -1}}));
  EXPECT_FALSE(localize(other, {{0, -1}}));
}

TEST(LocalizeTest, OtherOpsAreTheSameOpOnPieces) {
  Context context;
  // ([ij, k]) -> ([i, jk]): x shards i, y shards nothing.
  Sample reshape =
      parseSample(context, "%x: tensor<8x4xf32>", "%y = kerf.reshape %x : (tensor<8x4xf32>) -> tensor<2x16xf32>");
  ASSERT_TRUE(reshape.op);
  EXPECT_TRUE(llvm::isa_and_nonnull<ReshapeOp>(localize(reshape, {{0, -1}})));
  // Rows are sharded by x, and the contracted dimension of 8 by y, 3 on each rank.
  Sample dot =
      parseSample(context, "%x: tensor<4x8xf32>, %y: tensor<8x16xf32>",
                  "%z = kerf.dot_general %x, %y {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting "
                  "= array<i64: 1>, "
                  "rhs_contracting = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>");
  ASSERT_TRUE(dot.op);
  auto local = llvm::dyn_cast_or_null<DotGeneralOp>(localize(dot, {{0, 1}}));
  ASSERT_TRUE(local);
  EXPECT_EQ(shapeOf(local.getLhs()), (Shape{2, 3}));
  EXPECT_EQ(shapeOf(local.getRhs()), (Shape{3, 16}));
}

} // namespace
