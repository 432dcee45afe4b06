// SPDX-License-Identifier: Apache-2.0
// Finds differences between training the graph and training the original module, from PyTorch's metadata, names and
// values: parts that the exporter dropped without an error, and facts that it does not record.
#include "Onnx/OnnxParameters.h"
#include "Onnx/TorchMetadata.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::frontend {

namespace {

/// A list of different names in the order of their first occurrence. Its text shows the first twelve names.
class NameList {
public:
  void add(const std::string &name) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  bool empty() const { return names.empty(); }
  std::string text() const {
    constexpr size_t kShown = 12;
    size_t shown = std::min(names.size(), kShown);
    return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + int64_t(shown), ", "),
                       names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "");
  }

private:
  std::vector<std::string> names;
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Returns the module path of a node. If the metadata lack it, the path comes from the older exporter's node name
/// ("/layers/layers.0/bn/BatchNormalization"), or else is the name of the node.
std::string placeOf(const onnx::NodeProto &node) {
  if (std::string module = moduleOf(node); !module.empty())
    return module;
  std::string name = node.name();
  size_t last = name.rfind('/'), start = last == 0 || last == std::string::npos ? last : name.rfind('/', last - 1);
  return start == std::string::npos || start == last ? name : name.substr(start + 1, last - start - 1);
}

double numberOf(const std::optional<std::string> &text) {
  double value = 0;
  if (text)
    std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

int64_t integerOf(const onnx::NodeProto &node, std::string_view name) {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return attribute.i();
  return 0;
}

/// Returns whether the node is a batch normalization in inference form, or a convolution into which one was folded.
bool usesRunningStatistics(const onnx::NodeProto &node) {
  if (node.op_type() == "BatchNormalization")
    return !integerOf(node, "training_mode");
  return contains(metadata(node.metadata_props(), "pkg.onnxscript.rewriter.rule_name"), "FuseBatchNorm");
}

/// Returns whether the batch normalization was exported in training mode: its call uses batch statistics or changes the
/// running statistics.
bool tookStatisticsOfBatch(const onnx::NodeProto &node, const std::vector<std::string> &mutated) {
  std::string call = callOf(node);
  constexpr size_t kTraining = 5; // (input, weight, bias, running_mean, running_var, training, ...)
  for (std::string_view function :
       {"aten._native_batch_norm_legit_functional.default", "aten._native_batch_norm_legit.default",
        "aten.native_batch_norm.default", "aten.batch_norm.default"})
    if (callArgument(call, function, kTraining, "training").value_or("") == "True")
      return true;
  return node.op_type() == "BatchNormalization" && node.input_size() > 3 &&
         std::find(mutated.begin(), mutated.end(), node.input(3)) != mutated.end();
}

void addBatchNorms(const OnnxFile &file, const std::vector<int> &needed, std::vector<std::string> &warnings) {
  std::vector<std::string> mutated = mutatedBuffers(file);
  NameList inTraining, inEvaluation;
  for (int index : needed) {
    const onnx::NodeProto &node = file.model->graph().node(index);
    if (usesRunningStatistics(node))
      (tookStatisticsOfBatch(node, mutated) ? inTraining : inEvaluation).add(placeOf(node));
  }
  if (!inTraining.empty())
    warnings.push_back(
        fmt::format("batch normalization with batch statistics was exported as one with the running statistics, which "
                    "stay constant; training this graph is not training the module (export with dynamo=False, "
                    "training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, docs/exporting.md): {}",
                    inTraining.text()));
  if (!inEvaluation.empty())
    warnings.push_back(fmt::format("batch normalization uses the running statistics, which stay constant, because the "
                                   "module was exported in evaluation mode: {}; export it in training mode as "
                                   "docs/exporting.md shows to use the statistics of the batch",
                                   inEvaluation.text()));
}

void addLabelSmoothing(const OnnxFile &file, const std::vector<int> &needed, std::vector<std::string> &warnings) {
  NameList losses;
  constexpr size_t kSmoothing = 5; // (input, target, weight, reduction, ignore_index, label_smoothing)
  for (int index : needed) {
    const onnx::NodeProto &node = file.model->graph().node(index);
    double smoothing =
        numberOf(callArgument(callOf(node), "aten.cross_entropy_loss.default", kSmoothing, "label_smoothing"));
    if (smoothing != 0 && node.op_type() == "SoftmaxCrossEntropyLoss")
      losses.add(fmt::format("{} (label_smoothing={:g})", node.output(0), smoothing));
  }
  if (!losses.empty())
    warnings.push_back(fmt::format("the exporter dropped label_smoothing; training this graph is not training the "
                                   "module (write the loss with basic operators, docs/exporting.md): {}",
                                   losses.text()));
}

/// Returns whether the Dropout node drops elements, which it does only if its third operand (training mode) is true.
bool drops(const OnnxFile &file, const onnx::NodeProto &node) {
  if (node.op_type() != "Dropout" || node.input_size() < 3 || node.input(2).empty())
    return false;
  const Initializer *training = file.find(node.input(2));
  return !training || training->tensor.dtype != DType::Bool || !training->hasData() ||
         training->tensor.data[0] != std::byte(0);
}

/// Adds warnings on dropout that a call requests but no node applies, and on dropout modules without effect.
void addDropout(const OnnxFile &file, std::vector<std::string> &warnings) {
  constexpr size_t kProbability = 4; // (query, key, value, attn_mask, dropout_p, is_causal)
  NameList dropped, idle;
  std::set<std::string> doing; // modules and calls with a Dropout node that has an effect
  const auto &nodes = file.model->graph().node();
  for (const onnx::NodeProto &node : nodes)
    if (drops(file, node)) {
      doing.insert(callOf(node));
      doing.insert(placeOf(node));
    }
  for (const onnx::NodeProto &node : nodes) {
    std::string call = callOf(node);
    if (numberOf(callArgument(call, "aten.scaled_dot_product_attention.default", kProbability, "dropout_p")) > 0 &&
        !doing.count(call))
      dropped.add(fmt::format("{} (scaled_dot_product_attention)", placeOf(node)));
    std::vector<std::string> classes = classesOf(node);
    if (std::any_of(classes.begin(), classes.end(),
                    [](const std::string &name) { return contains(name, "torch.nn.modules.dropout."); }) &&
        !doing.count(placeOf(node)))
      idle.add(placeOf(node));
  }
  if (!dropped.empty())
    warnings.push_back(fmt::format("the exporter dropped the dropout inside of attention; training this graph is not "
                                   "training the module (write attention with basic operators, docs/exporting.md): {}",
                                   dropped.text()));
  if (!idle.empty())
    warnings.push_back(fmt::format("dropout has no effect, because the module was exported in evaluation mode: {}; "
                                   "export it after module.train() as docs/exporting.md shows",
                                   idle.text()));
}

/// Returns the variables of PyTorch's graph ("detach_1") that a detach() node of this graph computes.
std::set<std::string> keptDetached(const OnnxFile &file) {
  std::set<std::string> kept;
  for (const onnx::NodeProto &node : file.model->graph().node())
    if (std::string call = callOf(node); callArgument(call, "aten.detach.default", 0, "self") && call.starts_with('%'))
      kept.insert(call.substr(1, call.find(' ') - 1));
  return kept;
}

/// Returns whether the call of the node reads a detached value that no node of this graph computes, as an operand that
/// is not constant.
bool readsLostDetached(const OnnxFile &file, const onnx::NodeProto &node, const std::set<std::string> &kept) {
  constexpr std::string_view kName = "detach"; // PyTorch names these variables "detach", "detach_1", ...
  std::string call = callOf(node);
  size_t at = call.find("](args = (");
  if (at == std::string::npos)
    return false;
  std::vector<std::string> variables; // "%detach", "%linear_1"
  for (at = call.find('%', at); at != std::string::npos; at = call.find('%', at)) {
    size_t end = call.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", ++at);
    variables.push_back(call.substr(at, end - at));
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    std::string_view variable = variables[i];
    if (!variable.starts_with(kName) || (variable.size() > kName.size() && variable[kName.size()] != '_') ||
        variable.find_first_not_of("0123456789", std::min(variable.size(), kName.size() + 1)) != variable.npos ||
        kept.count(variables[i]))
      continue;
    bool alike = node.input_size() == int(variables.size());
    if (!alike || !file.find(node.input(int(i))))
      return true;
  }
  return false;
}

/// Adds warnings on operations of the module that the graph lacks: detaching a value, writing a tensor in forward(),
/// and arguments that the exporter drops.
void addDropped(const OnnxFile &file, const std::vector<int> &needed, std::vector<std::string> &warnings) {
  NameList detached, written, left;
  const std::set<std::string> kept = keptDetached(file);
  for (int index : needed) {
    const onnx::NodeProto &node = file.model->graph().node(index);
    std::string call = callOf(node);
    if (readsLostDetached(file, node, kept))
      detached.add(placeOf(node));
    if (callArgument(call, "aten.embedding.default", 3, "scale_grad_by_freq").value_or("") == "True" &&
        node.op_type() == "Gather")
      left.add(fmt::format("scale_grad_by_freq of {}", node.input(0)));
    if (callArgument(call, "aten.embedding_renorm.default", 0, "self"))
      left.add(fmt::format("max_norm of {}", placeOf(node)));
    if (std::optional<std::string> divisor = callArgument(call, "aten.avg_pool2d.default", 6, "divisor_override");
        divisor && *divisor != "None" && node.op_type() == "AveragePool")
      left.add(fmt::format("divisor_override={} of {}", *divisor, placeOf(node)));
  }
  std::set<std::string> statistics; // statistics of batch normalization, which have other warnings
  for (const onnx::NodeProto &node : file.model->graph().node())
    if (node.op_type() == "BatchNormalization" && node.input_size() > 4)
      statistics.insert({node.input(3), node.input(4)});
  for (const std::string &name : mutatedTensors(file))
    if (!statistics.count(name) && !name.ends_with("num_batches_tracked"))
      written.add(name);
  if (!detached.empty())
    warnings.push_back(fmt::format(
        "the exporter's optimizer removed detach(), so gradients flow where the module stops them; training this graph "
        "is not training the module (export with dynamo=True, optimize=False, docs/exporting.md): {}",
        detached.text()));
  if (!written.empty())
    warnings.push_back(fmt::format(
        "forward() writes these tensors, which the graph leaves constant; training this graph is not training the "
        "module (update them outside of forward(), or remove the update; docs/exporting.md): {}",
        written.text()));
  if (!left.empty())
    warnings.push_back(fmt::format("the exporter dropped arguments of these calls; training this graph is not training "
                                   "the module (docs/exporting.md): {}",
                                   left.text()));
}

/// Adds warnings on padding rows of embedding tables that are not zero and are therefore trained (compare
/// untrainedRow).
void addPadding(const OnnxFile &file, const std::vector<int> &needed, std::vector<std::string> &warnings) {
  NameList padded;
  constexpr size_t kPadding = 2; // (weight, indices, padding_idx, ...)
  for (int index : needed) {
    const onnx::NodeProto &node = file.model->graph().node(index);
    std::optional<std::string> row = callArgument(callOf(node), "aten.embedding.default", kPadding, "padding_idx");
    if (node.op_type() == "Gather" && row && numberOf(row) >= 0 && file.find(node.input(0)) &&
        !untrainedRow(file, node))
      padded.add(fmt::format("{} row {}", node.input(0), *row));
  }
  if (!padded.empty())
    warnings.push_back(fmt::format("a padding row (padding_idx) that is not zero is trained, although PyTorch keeps it "
                                   "constant: {}; set the row to zero and export again to keep it constant",
                                   padded.text()));
}

/// Returns the first two rows of a table whose elements are all zero.
std::vector<int64_t> rowsOfZeros(const Tensor &table) {
  std::vector<int64_t> rows;
  int64_t bytes = table.shape[1] * bytesOf(table.dtype);
  for (int64_t row = 0; row < table.shape[0] && rows.size() < 2 && table.data; ++row)
    if (std::all_of(table.data + row * bytes, table.data + (row + 1) * bytes,
                    [](std::byte b) { return b == std::byte(0); }))
      rows.push_back(row);
  return rows;
}

/// Returns whether the name ends like a parameter of PyTorch's own layers; `pos_weight`, a buffer of a loss, does not.
bool isNameOfLayer(std::string_view name) {
  std::string_view last = name.substr(name.rfind('.') + 1);
  if (last == "pos_weight")
    return false;
  return contains(last, "weight") || contains(last, "bias") || contains(last, "original") || contains(last, "lora");
}

/// Adds warnings on models of PyTorch's older exporter, which does not record which tensors are parameters, which row
/// of a table is padding, and whether the module was in training mode.
void addOlderExporter(const OnnxFile &file, const std::vector<InitializerRole> &roles, const std::vector<int> &needed,
                      std::vector<std::string> &warnings) {
  const auto &graph = file.model->graph();
  bool named = std::any_of(graph.node().begin(), graph.node().end(),
                           [](const onnx::NodeProto &node) { return node.name().rfind("/", 0) == 0; });
  if (file.model->producer_name() != "pytorch" || exporterMarksParameters(file) || !named)
    return;
  NameList buffers, padded, tables;
  bool isTraining = false;
  for (size_t i = 0; i < file.initializers.size(); ++i)
    if (const std::string &name = file.initializers[i].name;
        roles[i] == InitializerRole::TrainedParameter && name.rfind("onnx::", 0) != 0 && !isNameOfLayer(name))
      buffers.add(name);
  for (int index : needed) {
    const onnx::NodeProto &node = graph.node(index);
    isTraining |= node.op_type() == "Dropout" || integerOf(node, "training_mode");
    const Initializer *table = node.op_type() == "Gather" ? file.find(node.input(0)) : nullptr;
    if (!table || table->narrow || table->tensor.shape.size() != 2 ||
        roles[size_t(table - file.initializers.data())] != InitializerRole::TrainedParameter)
      continue;
    if (std::vector<int64_t> rows = rowsOfZeros(table->tensor); rows.size() == 1)
      padded.add(fmt::format("{} row {}", table->name, rows[0]));
    else
      tables.add(table->name);
  }
  if (!buffers.empty())
    warnings.push_back(fmt::format(
        "PyTorch's older exporter does not distinguish parameters from buffers; these tensors are trained, although no "
        "layer of PyTorch has a parameter of that name (<frozen> NAME keeps a buffer constant): {}",
        buffers.text()));
  if (!padded.empty())
    warnings.push_back(fmt::format(
        "PyTorch's older exporter does not record padding_idx; a row of zeros, which may be padding, is trained: {}",
        padded.text()));
  if (!tables.empty())
    warnings.push_back(
        fmt::format("PyTorch's older exporter does not record padding_idx; every row of these tables is trained: {}",
                    tables.text()));
  if (!isTraining)
    warnings.push_back("PyTorch's older exporter drops dropout and uses running statistics, unless "
                       "training=torch.onnx.TrainingMode.TRAINING is given; this graph has no dropout. Its exports do "
                       "not show detach(), no_grad() and buffers that forward() writes");
}

/// Adds a warning on LoRA, whose base weights should be frozen, which no exporter records.
void addLowRank(const OnnxFile &file, const std::vector<InitializerRole> &roles, std::vector<std::string> &warnings) {
  NameList additions, others;
  for (size_t i = 0; i < file.initializers.size(); ++i)
    if (const std::string &name = file.initializers[i].name; roles[i] == InitializerRole::TrainedParameter)
      (contains(name, "lora_") ? additions : others).add(name);
  if (!additions.empty() && !others.empty())
    warnings.push_back(fmt::format("exports do not record requires_grad=False, so besides {} these tensors are trained "
                                   "too: {}; train the LoRA weights only with <frozen> '*' <trainable> '*lora_*'",
                                   additions.text(), others.text()));
}

} // namespace

std::vector<std::string> differenceWarnings(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                                            const std::vector<int> &needed) {
  std::vector<std::string> warnings;
  addBatchNorms(file, needed, warnings);
  addLabelSmoothing(file, needed, warnings);
  addDropout(file, warnings);
  addPadding(file, needed, warnings);
  addDropped(file, needed, warnings);
  addOlderExporter(file, roles, needed, warnings);
  addLowRank(file, roles, warnings);
  return warnings;
}

} // namespace kerf::frontend
