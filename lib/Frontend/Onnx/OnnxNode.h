// SPDX-License-Identifier: Apache-2.0
// One ONNX node in the form that the handler of its operator takes: attributes, operands, a builder, and the results.
#pragma once

#include "Common/TermBuilder.h"
#include "Onnx/OnnxFile.h"

#include <functional>

namespace kerf::frontend {

/// The kind of a value in an ONNX graph; Nothing is an empty optional.
enum class GraphValueKind { Tensor, Sequence, Nothing, Texts };

/// The value of a name in an ONNX graph. A non-empty optional is represented by its content.
struct GraphValue {
  std::vector<Term> terms; // the tensor, or the tensors of a sequence (torch's split and chunk)
  GraphValueKind kind = GraphValueKind::Tensor;
  Shape textShape = {};                // shape of a string tensor, which only comparisons at import use
  std::vector<std::string> texts = {}; // elements of a string tensor

  bool isTensor() const { return kind == GraphValueKind::Tensor; }
  bool isSequence() const { return kind == GraphValueKind::Sequence; }
};
/// Returns the kind as a text for messages: "a tensor", "a sequence of tensors", ...
const char *toString(GraphValueKind kind);

/// A function that imports the nodes of a subgraph with the given input values, and returns the values of its outputs.
using SubgraphWriter =
    std::function<Result<std::vector<GraphValue>>(const onnx::GraphProto &, const std::vector<GraphValue> &)>;

/// One node of the graph during its import.
class OnnxNode {
public:
  OnnxNode(const onnx::NodeProto &proto, int64_t opset, TermBuilder &builder, std::vector<const GraphValue *> inputs,
           SubgraphWriter subgraphWriter)
      : b(builder), proto(proto), opsetVersion(opset), inputs(std::move(inputs)), outputs(proto.output_size()),
        subgraphWriter(std::move(subgraphWriter)) {}

  // Attributes. `fallback` is the operator's default, which is returned for an absent attribute.
  bool has(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t fallback) const;
  double number(std::string_view name, double fallback) const;
  std::string text(std::string_view name, std::string fallback) const;
  std::vector<int64_t> integers(std::string_view name) const;
  const onnx::AttributeProto *find(std::string_view name) const;

  // Operands. The table of operators gives the minimum number; later operands may be absent.
  int inputCount() const { return int(inputs.size()); }
  bool hasInput(int i) const { return i < int(inputs.size()) && inputs[i]; }
  /// Returns operand `i`, which must be a tensor; the table of operators says which operands may have other kinds.
  const Term &input(int i) const { return inputs[i]->terms.front(); }
  /// Returns operand `i` of any kind.
  const GraphValue &value(int i) const { return *inputs[i]; }
  /// Returns the elements of a constant integer operand. Fails when the operand is not constant.
  Result<std::vector<int64_t>> constantInput(int i) const;
  /// Returns the integers of operand `i`, or else of the attribute (older operator sets), or nothing if both are
  /// absent. Fails when the operand is not constant.
  Result<std::optional<std::vector<int64_t>>> integersFrom(int i, std::string_view attribute) const;

  int outputCount() const { return proto.output_size(); }
  /// Returns whether output `i` has a name, so that other nodes can read it.
  bool isOutputUsed(int i) const { return i < proto.output_size() && !proto.output(i).empty(); }
  /// Sets output `i` to a tensor. Fails for a shape that no machine can hold.
  Status set(int i, Term term);
  Status set(int i, Result<Term> term);
  /// Sets output `i` to a sequence of tensors.
  Status setSequence(int i, std::vector<Term> terms);
  /// Sets output `i` to a value of any kind.
  Status setValue(int i, GraphValue entry);
  /// Imports the subgraph in the attribute `attribute` with the inputs `graphInputs`, before the nodes after this one.
  /// Returns the values of its outputs.
  Result<std::vector<GraphValue>> writeSubgraph(std::string_view attribute,
                                                const std::vector<GraphValue> &graphInputs) const;
  /// Returns the outputs that were set.
  const std::vector<std::optional<GraphValue>> &results() const { return outputs; }
  /// Makes `term` the value of operand `i`, a buffer of the model, after the step.
  void update(int i, Term term) { updated.emplace_back(proto.input(i), std::move(term)); }
  /// Returns the updated buffers: name and new value.
  const std::vector<std::pair<std::string, Term>> &updates() const { return updated; }

  int64_t opset() const { return opsetVersion; }
  const std::string &opType() const { return proto.op_type(); }
  /// Returns whether PyTorch's exporter says that the node is a call of `function` ("aten.detach.default").
  bool isCallOf(std::string_view function) const;

  TermBuilder &b;

private:
  const onnx::NodeProto &proto;
  int64_t opsetVersion;
  std::vector<const GraphValue *> inputs;
  std::vector<std::optional<GraphValue>> outputs;
  std::vector<std::pair<std::string, Term>> updated;
  SubgraphWriter subgraphWriter;
};

/// The operands that the handler of an operator accepts.
enum class OperandKinds {
  Any,           // tensors of types in which Kerf computes
  Narrow,        // tensors of these types and of narrow formats (Narrow.h)
  FirstSequence, // a sequence of tensors as the first operand, then tensors
  Entries,       // values of every kind except tensors of narrow formats; the handler checks the kind
  Every,         // values of every kind, including tensors of narrow formats
  Constant,      // constant tensors only, because the operator is computed at import
};

/// A row of the table of ONNX operators.
struct OnnxOperator {
  const char *name; // operator type, such as "MatMul"
  int minOpset, maxOpset;
  int minInputs, maxInputs;
  OperandKinds operands;
  Status (*import)(OnnxNode &node);
};

/// Returns the table row of an operator, or null if Kerf does not support it.
const OnnxOperator *findOperator(std::string_view name);

// Handlers of operators, grouped by the file that defines them. Each imports one node, sets its outputs, and fails with
// the reason when the node is not supported.
Status importMatMul(OnnxNode &node); // OnnxProducts.cpp
Status importGemm(OnnxNode &node);
Status importReduce(OnnxNode &node);
Status importEinsum(OnnxNode &node);
Status importDft(OnnxNode &node);

Status importReshape(OnnxNode &node); // OnnxShapes.cpp
Status importFlatten(OnnxNode &node);
Status importSqueeze(OnnxNode &node);
Status importUnsqueeze(OnnxNode &node);
Status importTranspose(OnnxNode &node);
Status importExpand(OnnxNode &node);
Status importTile(OnnxNode &node);
Status importConcat(OnnxNode &node);
Status importSlice(OnnxNode &node);
Status importSplit(OnnxNode &node);
Status importSplitToSequence(OnnxNode &node);
Status importSequenceAt(OnnxNode &node);
Status importSequenceConstruct(OnnxNode &node);
Status importSequenceErase(OnnxNode &node);
Status importSequenceInsert(OnnxNode &node);
Status importSequenceLength(OnnxNode &node);
Status importConcatFromSequence(OnnxNode &node);
Status importPad(OnnxNode &node);
Status importCenterCropPad(OnnxNode &node);
Status importCompress(OnnxNode &node);
Status importGather(OnnxNode &node);

Status importRecurrent(OnnxNode &node); // OnnxRecurrent.cpp

Status importIf(OnnxNode &node); // OnnxControl.cpp
Status importLoop(OnnxNode &node);
Status importScan(OnnxNode &node);
Status importSequenceMap(OnnxNode &node);
Status importOptional(OnnxNode &node);
Status importOptionalHasElement(OnnxNode &node);
Status importOptionalGetElement(OnnxNode &node);

Result<Term> termFromProto(TermBuilder &b, const onnx::TensorProto &proto); // OnnxConstants.cpp
/// Returns the string tensor in `proto`.
Result<GraphValue> textsFromProto(const onnx::TensorProto &proto);
Status importEqual(OnnxNode &node);
Status importConstant(OnnxNode &node);
Status importConstantOfShape(OnnxNode &node);
Status importShape(OnnxNode &node);
Status importSize(OnnxNode &node);
Status importRange(OnnxNode &node);
Status importCumSum(OnnxNode &node);
Status importTrilu(OnnxNode &node);
Status importEyeLike(OnnxNode &node);
Status importMod(OnnxNode &node);
Status importNonZero(OnnxNode &node);

Status importAttention(OnnxNode &node); // OnnxAttention.cpp
Status importRotaryEmbedding(OnnxNode &node);

Status importScatterElements(OnnxNode &node); // OnnxScatter.cpp
Status importScatterNd(OnnxNode &node);

Status importTopK(OnnxNode &node); // OnnxLookups.cpp
Status importArgExtreme(OnnxNode &node);
Status importGatherNd(OnnxNode &node);
Status importGatherElements(OnnxNode &node);
Status importReverseSequence(OnnxNode &node);
Status importOneHot(OnnxNode &node);
Status importHardmax(OnnxNode &node);

Status importGridSample(OnnxNode &node); // OnnxSampling.cpp
Status importAffineGrid(OnnxNode &node);

Status importResize(OnnxNode &node); // OnnxResize.cpp
Status importDepthToSpace(OnnxNode &node);

Status importConv(OnnxNode &node); // OnnxWindows.cpp
Status importConvTranspose(OnnxNode &node);
Status importMaxPool(OnnxNode &node);
Status importAveragePool(OnnxNode &node);
Status importLpPool(OnnxNode &node);
Status importGlobalPool(OnnxNode &node);

Status importBatchNormalization(OnnxNode &node); // OnnxNorms.cpp
Status importInstanceNormalization(OnnxNode &node);
Status importGroupNormalization(OnnxNode &node);
Status importMeanVarianceNormalization(OnnxNode &node);
Status importLpNormalization(OnnxNode &node);
Status importLrn(OnnxNode &node);

Status importLeakyRelu(OnnxNode &node); // OnnxActivations.cpp
Status importPRelu(OnnxNode &node);
Status importHardSigmoid(OnnxNode &node);
Status importHardSwish(OnnxNode &node);
Status importSwish(OnnxNode &node);
Status importElu(OnnxNode &node);
Status importCelu(OnnxNode &node);
Status importSelu(OnnxNode &node);
Status importSoftplus(OnnxNode &node);
Status importMish(OnnxNode &node);
Status importSoftsign(OnnxNode &node);
Status importThresholdedRelu(OnnxNode &node);
Status importShrink(OnnxNode &node);
Status importHyperbolic(OnnxNode &node);
Status importInverseHyperbolic(OnnxNode &node);
Status importTan(OnnxNode &node);
Status importIsInf(OnnxNode &node);

Status importSoftmax(OnnxNode &node); // OnnxComposites.cpp
Status importGelu(OnnxNode &node);
Status importLayerNormalization(OnnxNode &node);
Status importRmsNormalization(OnnxNode &node);
Status importCrossEntropyLoss(OnnxNode &node);
Status importLogSoftmax(OnnxNode &node);
Status importLikelihoodLoss(OnnxNode &node);
/// Returns the cross entropy over the last dimension of `logits`. `reduction` is "mean", "sum" or "none" (one value for
/// each label). Labels equal to `ignored` do not count.
Result<Term> crossEntropy(TermBuilder &b, const Term &logits, const Term &labels, std::optional<int64_t> ignored,
                          std::string_view reduction);

} // namespace kerf::frontend
