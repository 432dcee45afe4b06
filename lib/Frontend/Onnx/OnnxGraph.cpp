// SPDX-License-Identifier: Apache-2.0
// Walks the nodes that the loss and the metrics depend on (OnnxNeeded.h), in the file's order, and hands each to its
// operator's handler. A graph that reads a value that nothing makes, or before it is made, is refused.
#include "Onnx/OnnxGraph.h"
#include "Common/Half.h"
#include "Common/Metrics.h"
#include "Onnx/OnnxNeeded.h"
#include "Onnx/OnnxNode.h"
#include "Onnx/OnnxParameters.h"
#include "Onnx/TorchMetadata.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unordered_map>

namespace kerf::frontend {

namespace {

constexpr int64_t kMostWrittenOut = 100000; // nodes of subgraphs; 96 layers have about 10,000
constexpr int64_t kIgnoredLabel = -100;     // PyTorch's cross_entropy leaves this label out by default

struct Argument {
  std::string name, kind;
  bool trainable = false;
};

class GraphImport {
public:
  GraphImport(mlir::MLIRContext &context, OnnxFile file, const ImportOptions &options, const TensorMap &replaced)
      : file(std::move(file)), options(options), replaced(replaced), unknown(mlir::UnknownLoc::get(&context)),
        module(mlir::ModuleOp::create(unknown)), function(emptyFunction()), block(&function.getBody().front()),
        b(block, options.floatType) {}

  Result<ImportedModel> run();

private:
  const onnx::GraphProto &graph() const { return file.model->graph(); }
  mlir::func::FuncOp emptyFunction() {
    mlir::OpBuilder top = mlir::OpBuilder::atBlockEnd(module->getBody());
    auto made = mlir::func::FuncOp::create(top, unknown, ir::KerfDialect::kEntryName, top.getFunctionType({}, {}));
    made.addEntryBlock();
    return made;
  }
  Status addInputs();
  Status addParameters();
  void findUpdatedBuffers();
  void addUpdatedBuffers();
  Status importNode(const onnx::NodeProto &proto, const std::string &name);
  Result<Term> withoutRow(const Term &rows, const Term &indices, int64_t row);
  Result<std::vector<Entry>> writeOut(const onnx::GraphProto &subgraph, const std::vector<Entry> &inputs,
                                      const std::string &outer);
  Result<const Entry *> lookup(const std::string &name);
  Result<Term> buildLoss();
  Result<std::vector<mlir::Value>> buildMetrics();
  void decideHalf();
  mlir::Location locationOf(const onnx::NodeProto &node, const std::string &name);
  std::string nameOf(int index) const { return nodeName(graph().node(index), index); }
  std::vector<std::pair<mlir::BlockArgument, Argument>> describeArguments();
  llvm::SmallVector<mlir::DictionaryAttr> keepUsedArguments();
  Result<ImportedModel> finish(const Term &loss, const std::vector<mlir::Value> &metrics);

  OnnxFile file;
  const ImportOptions &options;
  const TensorMap &replaced;
  mlir::Location unknown;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function; // its type is set when all arguments are known
  mlir::Block *block;
  TermBuilder b;

  std::vector<InitializerRole> roles;
  std::unordered_map<std::string, std::string> scopes;
  std::unordered_map<std::string, Entry> values;
  std::vector<Argument> arguments; // of the block, in order, but those of constants and of what is random
  NeededNodes needed;
  TensorMap weights;
  std::vector<std::string> warnings;
  std::map<std::string, mlir::BlockArgument> updatedBuffers; // that a node replaces after each step
  std::vector<std::pair<std::string, Term>> updates;
  int64_t nodesWrittenOut = 0;
  bool keepsHalf = true; // what the model computes in 16 bits is rounded to them (Half.h)
};

Status GraphImport::addInputs() {
  for (const onnx::ValueInfoProto &input : graph().input()) {
    if (file.find(input.name()))
      continue; // older files list initializers as inputs with a default
    const onnx::TypeProto::Tensor &type = input.type().tensor_type();
    const NarrowFormat *narrow = narrowFormat(type.elem_type());
    Result<DType> dtype = narrow ? heldType(*narrow) : dtypeFromOnnx(type.elem_type());
    if (!dtype || !type.has_shape())
      return Error{fmt::format("input '{}': {}", input.name(), dtype ? "it has no shape" : dtype.error().message)};
    Shape shape;
    for (const onnx::TensorShapeProto::Dimension &dim : type.shape().dim()) {
      if (dim.value_case() != onnx::TensorShapeProto::Dimension::kDimValue)
        return Error{
            fmt::format("dimension {} of input '{}' has no size (it is called '{}'): export with static shapes",
                        shape.size(), input.name(), dim.dim_param())};
      shape.push_back(dim.dim_value());
    }
    if (Status status = checkShape(shape); !status)
      return Error{fmt::format("input '{}' has {}", input.name(), status.error().message)};
    DType element = isFloat(*dtype) ? options.floatType : *dtype;
    arguments.push_back({input.name(), "input"});
    Term term = b.fromValue(block->addArgument(b.type(element, shape), unknown));
    if (narrow) { // the data's numbers may be others than the format has
      b.setLocation(mlir::NameLoc::get(b.builder.getStringAttr(input.name())));
      KERF_TRY(rounded, toNarrow(b, *narrow, term, Saturate::Yes));
      term = rounded;
    }
    if (const NarrowFormat *half = halfFormat(type.elem_type()); half && keepsHalf) {
      b.setLocation(mlir::NameLoc::get(b.builder.getStringAttr(input.name())));
      KERF_TRY(rounded, toHalf(b, *half, term));
      term = rounded;
    }
    values[input.name()] = Entry{{std::move(term)}};
  }
  return ok();
}

Status GraphImport::addParameters() {
  std::set<std::string> read;
  for (int index : needed.nodes)
    forReads(graph().node(index), [&](const std::string &input) {
      read.insert(input);
      const Initializer *copy = file.find(input), *of = copy ? transposedOf(file, roles, *copy) : nullptr;
      if (of)
        read.insert(of->name);
    });
  std::vector<std::string> unused;
  for (size_t i = 0; i < file.initializers.size(); ++i) {
    const Initializer &initializer = file.initializers[i];
    if (roles[i] != InitializerRole::TrainedParameter && roles[i] != InitializerRole::FrozenParameter)
      continue;
    if (!read.count(initializer.name)) {
      unused.push_back(initializer.name);
      continue;
    }
    arguments.push_back({initializer.name, "parameter", roles[i] == InitializerRole::TrainedParameter});
    mlir::Location at = mlir::NameLoc::get(b.builder.getStringAttr(initializer.name));
    Term term = b.fromValue(block->addArgument(b.type(options.floatType, initializer.tensor.shape), at));
    if (keepsHalf) // not trained: it has numbers of its format
      term.narrow = halfFormat(initializer.tensor.dtype);
    values[initializer.name] = Entry{{std::move(term)}};
    if (initializer.hasData())
      weights[initializer.name] = initializer.tensor;
  }
  if (!unused.empty())
    warnings.push_back(fmt::format("the loss does not depend on {} parameters, which are left out: {}", unused.size(),
                                   fmt::join(unused, ", ")));
  return ok();
}

/// Running statistics of batch normalizations in training mode.
void GraphImport::findUpdatedBuffers() {
  constexpr int kFirst = 3, kLast = 4; // the operands that hold them
  for (int index : needed.nodes) {
    const onnx::NodeProto &node = graph().node(index);
    bool isTraining = std::any_of(node.attribute().begin(), node.attribute().end(), [](const auto &attribute) {
      return attribute.name() == "training_mode" && attribute.i() != 0;
    });
    if (node.op_type() != "BatchNormalization" || !isTraining)
      continue;
    for (int i = kFirst; i <= kLast && i < node.input_size(); ++i)
      if (const Initializer *initializer = file.find(node.input(i));
          initializer && isFloat(initializer->tensor.dtype) && !initializer->narrow) {
        roles[initializer - file.initializers.data()] = InitializerRole::Buffer;
        updatedBuffers.emplace(node.input(i), mlir::BlockArgument());
      }
  }
}

void GraphImport::addUpdatedBuffers() {
  for (auto &[name, argument] : updatedBuffers) {
    const Initializer &initializer = *file.find(name);
    argument = block->addArgument(b.type(options.floatType, initializer.tensor.shape),
                                  mlir::NameLoc::get(b.builder.getStringAttr(name)));
    arguments.push_back({name, "buffer"});
    values[name] = Entry{{b.fromValue(argument)}};
    if (initializer.hasData())
      weights[name] = initializer.tensor;
  }
}

Result<const Entry *> GraphImport::lookup(const std::string &name) {
  if (auto it = values.find(name); it != values.end())
    return &it->second;
  const Initializer *initializer = file.find(name);
  if (!initializer) {
    if (auto it = needed.producers.find(name); it != needed.producers.end())
      return Error{fmt::format("it reads '{}' before node '{}' makes it: the graph has a cycle or is not sorted", name,
                               nameOf(it->second))};
    return Error{fmt::format("it reads '{}', which nothing makes", name)};
  }
  if (initializer->texts) {
    KERF_TRY(texts, textsFromProto(*initializer->texts));
    return &(values[name] = std::move(texts));
  }
  bool buffer = roles[initializer - file.initializers.data()] == InitializerRole::Buffer;
  if (!initializer->hasData()) {
    if (!isFloat(initializer->tensor.dtype) || initializer->tensor.shape.empty() || initializer->narrow)
      return Error{fmt::format("it needs the value of '{}', and its external data file does not exist", name)};
    mlir::Location at = mlir::NameLoc::get(b.builder.getStringAttr(name));
    arguments.push_back({name, buffer ? "buffer" : "constant"});
    return &(values[name] =
                 Entry{{b.fromValue(block->addArgument(b.type(options.floatType, initializer->tensor.shape), at))}});
  }
  if (const Initializer *of = buffer ? nullptr : transposedOf(file, roles, *initializer)) {
    KERF_TRY(transposed, b.transpose(values.at(of->name).terms.front(), {1, 0}));
    return &(values[name] = Entry{{std::move(transposed)}});
  }
  KERF_TRY(literal, literalFromTensor(initializer->tensor, options.floatType));
  Term term = b.fromLiteral(literal, name);
  if (buffer && isFloat(term.dtype))
    term.buffer = name;
  term.narrow = initializer->narrow;
  if (!term.narrow && keepsHalf)
    term.narrow = halfFormat(initializer->tensor.dtype);
  return &(values[name] = Entry{{std::move(term)}});
}

mlir::Location GraphImport::locationOf(const onnx::NodeProto &node, const std::string &nodeName) {
  std::string scope = moduleOf(node);
  // Nodes that an optimizer made have no scope: they belong where their operand was made.
  for (int i = 0; i < node.input_size() && scope.empty() && node.metadata_props().empty(); ++i)
    if (auto it = scopes.find(node.input(i)); it != scopes.end())
      scope = it->second;
  for (const std::string &output : node.output())
    scopes[output] = scope;
  std::string name = scope.empty() ? nodeName : scope + "/" + nodeName;
  return mlir::NameLoc::get(b.builder.getStringAttr(name));
}

Status GraphImport::importNode(const onnx::NodeProto &proto, const std::string &name) {
  const OnnxOperator &op = *findOperator(proto.op_type());
  std::vector<const Entry *> inputs;
  for (const std::string &input : proto.input()) {
    if (input.empty()) {
      inputs.push_back(nullptr);
      continue;
    }
    KERF_TRY(entry, lookup(input));
    inputs.push_back(entry);
  }
  // The map's nodes do not move, but an absent operand at the end is the same as none.
  while (!inputs.empty() && !inputs.back())
    inputs.pop_back();
  int present = int(std::find(inputs.begin(), inputs.end(), nullptr) - inputs.begin());
  if (int(inputs.size()) > op.maxInputs || present < op.minInputs)
    return Error{fmt::format("it has {} operands, {} to {} are needed", present, op.minInputs, op.maxInputs)};
  bool isEntries = op.operands == Operands::Entries || op.operands == Operands::Every,
       readsNarrow = op.operands == Operands::Narrow || op.operands == Operands::Every;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i])
      continue;
    Holds wanted = op.operands == Operands::FirstSequence && i == 0 ? Holds::Sequence : Holds::Tensor;
    if (!isEntries && inputs[i]->holds != wanted)
      return Error{fmt::format("operand {} ('{}') is {}, {} is needed", i, proto.input(int(i)),
                               toString(inputs[i]->holds), toString(wanted))};
    if (readsNarrow || inputs[i]->terms.empty())
      continue;
    if (const NarrowFormat *narrow = inputs[i]->terms.front().narrow; narrow && !isHalf(narrow))
      return Error{fmt::format("operand {} ('{}') is {}, which Cast, CastLike and Identity read: cast it to {} first",
                               i, proto.input(int(i)), narrow->name,
                               isFloat(heldType(*narrow)) ? "a wider floating type" : "int8, uint8 or wider")};
  }
  for (const Entry *input : inputs)
    if (op.operands == Operands::Constant && input && !input->terms.front().isConstant())
      return Error{"it is read on constants only; an operand is computed, or its data is absent"};
  b.setLocation(locationOf(proto, name));
  OnnxNode node(proto, file.opset, b, std::move(inputs),
                [&](const onnx::GraphProto &subgraph, const std::vector<Entry> &given) {
                  return writeOut(subgraph, given, name);
                });
  const NarrowFormat *casts = keepsHalf ? halfOfCast(node) : nullptr, *half = keepsHalf ? halfOfResults(node) : nullptr;
  KERF_CHECK(casts ? node.set(0, toHalf(b, *casts, node.input(0))) : op.import(node));
  for (const auto &[name, term] : node.updates()) {
    if (!updatedBuffers.count(name))
      return Error{fmt::format("it updates '{}', which is no buffer of the model", name)};
    if (std::any_of(updates.begin(), updates.end(), [&](const auto &update) { return update.first == name; }))
      return Error{fmt::format("it updates '{}', which another node updates too", name)};
    updates.emplace_back(name, term);
  }
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty())
      continue;
    if (!node.results()[i])
      return Error{fmt::format("its output {} ('{}') is not supported", i, proto.output(i))};
    Entry entry = *node.results()[i];
    if (std::optional<int64_t> row = untrainedRow(file, proto)) {
      KERF_TRY(rows, withoutRow(entry.terms.front(), node.input(1), *row));
      entry.terms = {rows};
    }
    for (Term &term : entry.terms)
      if (half)
        KERF_CHECK(roundResult(node, *half, term));
    for (Term &term : entry.terms)
      if (term.name.empty())
        term.name = proto.output(i);
    if (!values.emplace(proto.output(i), std::move(entry)).second)
      return Error{fmt::format("it makes '{}', which is there already", proto.output(i))};
  }
  return ok();
}

/// What was looked up at `indices`, zeros where that is `row`: the same numbers, but the row gets no gradient.
Result<Term> GraphImport::withoutRow(const Term &rows, const Term &indices, int64_t row) {
  KERF_TRY(isIt, b.compare(Order::Equal, indices, b.integer(indices.dtype, row)));
  if (isIt.isConstant() && isAll(*isIt.literal, 0))
    return rows;
  Shape column = indices.shape;
  column.push_back(1);
  KERF_TRY(everywhere, b.reshape(isIt, column));
  return b.select(everywhere, b.scalar(rows.dtype, 0), rows);
}

/// What the subgraph names is gone behind it: its nodes may be written out again.
Result<std::vector<Entry>> GraphImport::writeOut(const onnx::GraphProto &subgraph, const std::vector<Entry> &inputs,
                                                 const std::string &outer) {
  if (size_t(subgraph.input_size()) != inputs.size())
    return Error{fmt::format("its subgraph has {} inputs, {} are given", subgraph.input_size(), inputs.size())};
  nodesWrittenOut += 1 + subgraph.node_size();
  if (nodesWrittenOut > kMostWrittenOut)
    return Error{fmt::format("its subgraphs are {} nodes or more when they are written out, {} are supported; export "
                             "the model with fewer rounds",
                             nodesWrittenOut, kMostWrittenOut)};
  std::vector<std::string> named;
  auto name = [&](const std::string &value, Entry entry) -> Status {
    if (needed.producers.count(value) || file.find(value) || !values.emplace(value, std::move(entry)).second)
      return Error{fmt::format("its subgraph names '{}', which is there already", value)};
    named.push_back(value);
    return ok();
  };
  for (int i = 0; i < subgraph.input_size(); ++i)
    KERF_CHECK(name(subgraph.input(i).name(), inputs[size_t(i)]));
  for (const onnx::TensorProto &initializer : subgraph.initializer()) {
    if (initializer.data_type() == onnx::TensorProto::STRING) {
      KERF_TRY(texts, textsFromProto(initializer));
      KERF_CHECK(name(initializer.name(), texts));
      continue;
    }
    KERF_TRY(term, termFromProto(b, initializer));
    term.name = initializer.name();
    KERF_CHECK(name(initializer.name(), Entry{{std::move(term)}}));
  }
  for (int i = 0; i < subgraph.node_size(); ++i) {
    const onnx::NodeProto &node = subgraph.node(i);
    std::string inner = outer + "/" + nodeName(node, i);
    auto refuse = [&](const std::string &why) {
      return Error{fmt::format("node '{}' ({}): {}", inner, node.op_type(), why)};
    };
    if (auto why = whyRefused(node, file.opset))
      return refuse(fmt::format("the operator is not supported{}{}", why->empty() ? "" : ": ", *why));
    if (Status status = importNode(node, inner); !status)
      return refuse(status.error().message);
    named.insert(named.end(), node.output().begin(), node.output().end());
  }
  std::vector<Entry> outputs;
  for (const onnx::ValueInfoProto &output : subgraph.output()) {
    KERF_TRY(entry, lookup(output.name()));
    outputs.push_back(*entry);
  }
  for (const std::string &value : named)
    values.erase(value);
  return outputs;
}

/// The type that the model says.
static std::string_view typeOf(const Term &term) { return term.narrow ? term.narrow->name : toString(term.dtype); }

static bool isRefused(const Term &value) { return value.narrow && !isHalf(value.narrow); }

Result<Term> GraphImport::buildLoss() {
  const LossRequest &asked = needed.loss;
  for (const std::string &name : {asked.value, asked.labels})
    if (auto it = values.find(name); it != values.end() && !it->second.isTensor())
      return Error{fmt::format("the loss reads '{}', which is {}", name, toString(it->second.holds))};
  const Term &value = values.at(asked.value).terms.front();
  if (asked.labels.empty()) {
    if (elementsOf(value.shape) != 1 || !isFloat(value.dtype) || isRefused(value))
      return Error{fmt::format("the loss '{}' is {} {}, a floating scalar is needed", asked.value, typeOf(value),
                               shapeText(value.shape))};
    return b.reshape(value, {});
  }
  b.setLocation(mlir::NameLoc::get(b.builder.getStringAttr("loss")));
  if (!isFloat(value.dtype) || value.rank() < 1 || isRefused(value))
    return Error{fmt::format("the logits '{}' are {} {}", asked.value, typeOf(value), shapeText(value.shape))};
  auto labels = values.find(asked.labels);
  if (labels == values.end()) {
    Shape shape(value.shape.begin(), value.shape.end() - 1);
    // Behind the other inputs: arguments of one kind stay together.
    auto behind = std::find_if(arguments.begin(), arguments.end(), [](const Argument &a) { return a.kind != "input"; });
    int position = int(behind - arguments.begin());
    arguments.insert(behind, {asked.labels, "input"});
    mlir::BlockArgument argument = block->insertArgument(position, b.type(DType::I64, shape), unknown);
    labels = values.emplace(asked.labels, Entry{{b.fromValue(argument)}}).first;
  }
  if (const Term &given = labels->second.terms.front(); given.narrow)
    return Error{fmt::format("the labels '{}' are {}, an integer type is needed", asked.labels, typeOf(given))};
  Result<Term> result = crossEntropy(b, value, labels->second.terms.front(), kIgnoredLabel, "mean");
  if (!result)
    return Error{fmt::format("the loss '{}': {}", options.loss, result.error().message)};
  return result;
}

Result<std::vector<mlir::Value>> GraphImport::buildMetrics() {
  std::vector<mlir::Value> metrics;
  for (const std::string &name : options.metrics) {
    auto found = values.find(name);
    if (found == values.end() || !found->second.isTensor())
      return Error{fmt::format("the metric '{}' is no tensor", name)};
    if (std::any_of(arguments.begin(), arguments.end(), [&](const Argument &one) { return one.name == name; }))
      return Error{fmt::format("the metric '{}' has the name of an input or a parameter", name)};
    const Term &value = found->second.terms.front();
    if (isRefused(value))
      return Error{fmt::format("the metric '{}' is {}: return it as f32", name, typeOf(value))};
    KERF_TRY(metric, metricOf(b, name, value, options.floatType));
    metrics.push_back(metric);
  }
  return metrics;
}

/// A model whose trained parameters have 16 bits was converted as a whole: its types follow --dtype, as its weights do.
/// Otherwise 16 bits are what its casts and constants say.
void GraphImport::decideHalf() {
  std::vector<std::string> narrow;
  for (size_t i = 0; i < file.initializers.size(); ++i)
    if (roles[i] == InitializerRole::TrainedParameter && halfFormat(file.initializers[i].tensor.dtype))
      narrow.push_back(file.initializers[i].name);
  keepsHalf = narrow.empty();
  bool casts = std::any_of(graph().node().begin(), graph().node().end(), [](const onnx::NodeProto &node) {
    return node.op_type() == "Cast" && std::any_of(node.attribute().begin(), node.attribute().end(), [](const auto &a) {
             return a.name() == "to" && halfFormat(int32_t(a.i()));
           });
  });
  if (!keepsHalf && casts)
    warnings.push_back(fmt::format("{} trained parameters are stored in 16 bits ({}{}), so casts to float16 and "
                                   "bfloat16 do nothing: the computation has the type of <dtype>",
                                   narrow.size(), narrow.front(), narrow.size() > 1 ? ", .." : ""));
}

Result<ImportedModel> GraphImport::run() {
  KERF_TRY(chosen, initializerRoles(file, options));
  roles = chosen;
  decideHalf();
  for (Initializer &initializer : file.initializers)
    if (auto it = replaced.find(initializer.name); it != replaced.end()) {
      if (it->second.shape != initializer.tensor.shape)
        return Error{fmt::format("<weights>: '{}' has the shape {}, the model's has {}", initializer.name,
                                 shapeText(it->second.shape), shapeText(initializer.tensor.shape))};
      if (initializer.narrow)
        return Error{fmt::format("<weights>: '{}' is {} in the model, whose numbers are the model's own: leave it out",
                                 initializer.name, initializer.narrow->name)};
      initializer.tensor = it->second;
    }
  KERF_TRY(reached, findNeeded(file, options.loss, options.metrics));
  needed = std::move(reached);
  findUpdatedBuffers();
  KERF_CHECK(checkOperators(file, roles, needed.nodes));
  KERF_CHECK(addInputs());
  KERF_CHECK(addParameters());
  addUpdatedBuffers();
  for (int index : needed.nodes)
    if (Status status = importNode(graph().node(index), nameOf(index)); !status)
      return Error{
          fmt::format("node '{}' ({}): {}", nameOf(index), graph().node(index).op_type(), status.error().message),
          status.error().status};
  KERF_TRY(loss, buildLoss());
  KERF_TRY(metrics, buildMetrics());
  return finish(loss, metrics);
}

/// Returns a description of each argument of the block. Arguments of missing initializers and of folded constants were
/// added as they were needed, and the block has them in that order.
std::vector<std::pair<mlir::BlockArgument, Argument>> GraphImport::describeArguments() {
  std::vector<std::pair<mlir::BlockArgument, Argument>> described;
  std::vector<mlir::BlockArgument> folded;
  for (const ConstantArgument &constant : b.constantArguments())
    folded.push_back(constant.argument);
  size_t next = 0;
  for (mlir::BlockArgument argument : block->getArguments()) {
    if (llvm::is_contained(b.randomArguments(), argument)) {
      const char *kind = argument == b.randomArguments()[0] ? "seed" : "step";
      described.emplace_back(argument, Argument{kind, kind});
      continue;
    }
    auto it = std::find(folded.begin(), folded.end(), argument);
    if (it == folded.end()) {
      described.emplace_back(argument, arguments[next++]);
      continue;
    }
    const ConstantArgument &constant = b.constantArguments()[it - folded.begin()];
    described.emplace_back(argument, Argument{constant.name, constant.kind});
    if (constant.kind == "buffer" && file.find(constant.name))
      weights[constant.name] = file.find(constant.name)->tensor;
    else
      weights[constant.name] = constant.literal.stored;
  }
  return described;
}

/// Erases the arguments that nothing uses. Returns the attributes of the others.
llvm::SmallVector<mlir::DictionaryAttr> GraphImport::keepUsedArguments() {
  std::vector<std::pair<mlir::BlockArgument, Argument>> described = describeArguments();
  mlir::Builder &builder = b.builder;
  llvm::SmallVector<mlir::DictionaryAttr> attributes;
  llvm::BitVector dead(block->getNumArguments());
  for (auto &[argument, description] : described) {
    bool constant = description.kind == "constant" || description.kind == "buffer";
    auto update = std::find_if(updates.begin(), updates.end(),
                               [&, &named = description](const auto &one) { return one.first == named.name; });
    bool drawn = llvm::is_contained(b.randomArguments(), argument);
    if ((constant || drawn) && argument.use_empty() && update == updates.end()) {
      dead.set(argument.getArgNumber());
      weights.erase(description.name);
      continue;
    }
    llvm::SmallVector<mlir::NamedAttribute> named{
        builder.getNamedAttr(ir::KerfDialect::kKindAttr, builder.getStringAttr(description.kind)),
        builder.getNamedAttr(ir::KerfDialect::kNameAttr, builder.getStringAttr(description.name))};
    if (description.trainable)
      named.push_back(builder.getNamedAttr(ir::KerfDialect::kTrainableAttr, builder.getUnitAttr()));
    if (constant && update != updates.end())
      named.push_back(builder.getNamedAttr(ir::KerfDialect::kUpdatedByAttr,
                                           builder.getI64IntegerAttr(update - updates.begin() + 1)));
    attributes.push_back(builder.getDictionaryAttr(named));
  }
  block->eraseArguments(dead);
  return attributes;
}

Result<ImportedModel> GraphImport::finish(const Term &lossTerm, const std::vector<mlir::Value> &metrics) {
  llvm::SmallVector<mlir::Value> results = {b.emit(lossTerm)}; // the loss, the updated buffers, the metrics
  for (const auto &[name, term] : updates)
    results.push_back(b.emit(term));
  results.append(metrics.begin(), metrics.end());
  mlir::func::ReturnOp::create(b.builder, unknown, results);
  // Erases operators without uses: only their shapes were asked for, or a fold made them superfluous.
  for (mlir::Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (!op.hasTrait<mlir::OpTrait::IsTerminator>() && op.use_empty())
      op.erase();

  mlir::Builder &builder = b.builder;
  llvm::SmallVector<mlir::DictionaryAttr> attributes = keepUsedArguments();
  function.setFunctionType(builder.getFunctionType(block->getArgumentTypes(), mlir::ValueRange(results).getTypes()));
  function.setAllArgAttrs(attributes);
  for (size_t i = 0; i < updates.size(); ++i)
    function.setResultAttr(unsigned(i + 1), ir::KerfDialect::kNameAttr, builder.getStringAttr(updates[i].first));
  function.setResultAttr(0, ir::KerfDialect::kNameAttr,
                         builder.getStringAttr("loss")); // whatever the exporter calls it
  for (size_t i = 0; i < metrics.size(); ++i)
    function.setResultAttr(unsigned(updates.size() + i + 1), ir::KerfDialect::kNameAttr,
                           builder.getStringAttr(options.metrics[i]));
  ImportedModel model;
  model.module = std::move(module);
  model.weights = std::move(weights);
  for (const auto &[name, count] : file.missingFiles)
    model.missingFiles.push_back(name);
  model.warnings = std::move(warnings);
  LostParameters lost = lostParameters(file, roles, needed.nodes);
  if (!lost.folded.empty())
    (*model.module)
        ->setAttr(kFoldedAttr,
                  builder.getStrArrayAttr(llvm::SmallVector<llvm::StringRef>(lost.folded.begin(), lost.folded.end())));
  for (auto &&more :
       {parameterWarnings(file, roles, needed.nodes, lost), differenceWarnings(file, roles, needed.nodes)})
    model.warnings.insert(model.warnings.end(), more.begin(), more.end());
  return model;
}

} // namespace

Result<ImportedModel> importOnnx(mlir::MLIRContext &context, OnnxFile file, const ImportOptions &options,
                                 const TensorMap &replaced) {
  return GraphImport(context, std::move(file), options, replaced).run();
}

} // namespace kerf::frontend
