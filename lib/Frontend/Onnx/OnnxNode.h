// SPDX-License-Identifier: Apache-2.0
// One ONNX node as its handler sees it: attributes, operands as terms, a builder, and room for the results.
#pragma once

#include "Onnx/OnnxFile.h"
#include "Common/TermBuilder.h"

#include <functional>

namespace kerf::frontend {

enum class Holds { Tensor, Sequence, Nothing, Texts };

/// What a name of the graph stands for. An optional that holds something is just that.
struct Entry {
  std::vector<Term> terms; // one, or those of a sequence (torch's split and chunk)
  Holds holds = Holds::Tensor;
  Shape textShape = {}; // of texts, which are compared at import and nothing else
  std::vector<std::string> texts = {};

  bool isTensor() const { return holds == Holds::Tensor; }
  bool isSequence() const { return holds == Holds::Sequence; }
};
/// "a tensor", "a sequence of tensors", ...
const char *toString(Holds holds);

/// Writes a subgraph's nodes out, with these values for its inputs; gives its outputs.
using WriteOut = std::function<Result<std::vector<Entry>>(const onnx::GraphProto &, const std::vector<Entry> &)>;

class OnnxNode {
public:
  OnnxNode(const onnx::NodeProto &proto, int64_t opset, TermBuilder &builder, std::vector<const Entry *> inputs,
           WriteOut writeOut)
      : b(builder), proto(proto), opsetVersion(opset), inputs(std::move(inputs)), outputs(proto.output_size()),
        writeOut(std::move(writeOut)) {}

  // Attributes; an absent one has the operator's default.
  bool has(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string otherwise) const;
  std::vector<int64_t> integers(std::string_view name) const;
  const onnx::AttributeProto *find(std::string_view name) const;

  // Operands. The table of operators says how many there are at least; a later one may be absent.
  int inputCount() const { return int(inputs.size()); }
  bool hasInput(int i) const { return i < int(inputs.size()) && inputs[i]; }
  /// A tensor: the table of operators says which operands may be something else.
  const Term &input(int i) const { return inputs[i]->terms.front(); }
  const Entry &entry(int i) const { return *inputs[i]; }
  /// The values of a constant integer operand.
  Result<std::vector<int64_t>> constantInput(int i) const;
  /// The integers of operand `i`, or of the attribute of that name (older opsets), or nothing.
  Result<std::optional<std::vector<int64_t>>> integersFrom(int i, std::string_view attribute) const;

  int outputCount() const { return proto.output_size(); }
  bool wants(int i) const { return i < proto.output_size() && !proto.output(i).empty(); }
  Status set(int i, Term term);
  Status set(int i, Result<Term> term);
  Status setSequence(int i, std::vector<Term> terms);
  Status setEntry(int i, Entry entry);
  /// The outputs of the subgraph `attribute` of these inputs, written out in front of what follows this node.
  Result<std::vector<Entry>> writtenOut(std::string_view attribute, const std::vector<Entry> &graphInputs) const;
  const std::vector<std::optional<Entry>> &results() const { return outputs; }
  /// Operand `i`, a buffer of the model, holds `term` after the step.
  void update(int i, Term term) { updated.emplace_back(proto.input(i), std::move(term)); }
  /// Name of the buffer, its new value.
  const std::vector<std::pair<std::string, Term>> &updates() const { return updated; }

  int64_t opset() const { return opsetVersion; }
  const std::string &opType() const { return proto.op_type(); }
  /// Returns whether PyTorch's exporter says that the node is a call of `function` ("aten.detach.default").
  bool isCallOf(std::string_view function) const;

  TermBuilder &b;

private:
  const onnx::NodeProto &proto;
  int64_t opsetVersion;
  std::vector<const Entry *> inputs;
  std::vector<std::optional<Entry>> outputs;
  std::vector<std::pair<std::string, Term>> updated;
  WriteOut writeOut;
};

enum class Operands {
  Any,           // tensors of types that Kerf computes with
  Narrow,        // tensors, of narrow formats too (Narrow.h)
  FirstSequence, // a sequence of tensors, then tensors
  Entries,       // whatever a name stands for, but tensors of narrow formats; the handler looks
  Every,         // these too
  Constant,      // the operator is computed at import only
};

/// What Kerf knows of one ONNX operator.
struct OnnxOperator {
  const char *name;
  int minOpset, maxOpset;
  int minInputs, maxInputs;
  Operands operands;
  Status (*import)(OnnxNode &node);
};

/// Null for an operator that Kerf does not know.
const OnnxOperator *findOperator(std::string_view name);

// Handlers, by file.
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
Result<Entry> textsFromProto(const onnx::TensorProto &proto);
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
/// The mean (or sum, or each) of the cross entropy over the last dimension of `logits`; labels equal to `ignored` do
/// not count.
Result<Term> crossEntropy(TermBuilder &b, const Term &logits, const Term &labels, std::optional<int64_t> ignored,
                          std::string_view reduction);

} // namespace kerf::frontend
