// SPDX-License-Identifier: Apache-2.0
// Imports the nodes on which the loss and the metrics depend (OnnxNeeded.h), in the order of the file, each by the
// handler of its operator. A graph that reads a value which no node computes, or before it is computed, is refused.
#include "Onnx/OnnxGraph.h"
#include "Common/Half.h"
#include "Common/WayOut.h"
#include "Onnx/OnnxLoss.h"
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

constexpr int64_t kMostWrittenOut = 100000; // limit of imported subgraph nodes; 96 layers have about 10,000

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
  Result<std::vector<GraphValue>> writeSubgraph(const onnx::GraphProto &subgraph, const std::vector<GraphValue> &inputs,
                                                const std::string &outer);
  Result<const GraphValue *> lookup(const std::string &name);
  Term addLabels(const std::string &name, const Shape &shape);
  bool isArgument(const std::string &name) const;
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
  mlir::func::FuncOp function; // its type is set at the end, when all arguments are known
  mlir::Block *block;
  TermBuilder b;

  std::vector<InitializerRole> roles;
  std::unordered_map<std::string, std::string> scopes;
  GraphValues values;
  std::vector<Argument> arguments; // arguments of the block in order, without those of constants and random numbers
  NeededNodes needed;
  TensorMap weights;
  std::vector<std::string> warnings;
  std::map<std::string, mlir::BlockArgument> updatedBuffers; // buffers that a node updates in each step
  std::vector<std::pair<std::string, Term>> updates;
  int64_t nodesWrittenOut = 0;
  bool keepsHalf = true; // whether 16-bit parts of the model are rounded to their format (Half.h)
};

Status GraphImport::addInputs() {
  for (const onnx::ValueInfoProto &input : graph().input()) {
    if (file.find(input.name()))
      continue; // older files list initializers among the inputs
    const onnx::TypeProto::Tensor &type = input.type().tensor_type();
    const NarrowFormat *narrow = narrowFormat(type.elem_type());
    Result<DType> dtype = narrow ? storageType(*narrow) : dtypeFromOnnx(type.elem_type());
    if (!dtype || !type.has_shape())
      return withWayOut(
          {fmt::format("input '{}': {}", input.name(), dtype ? "it has no shape" : dtype.error().message)},
          "export the model with static shapes");
    Shape shape;
    for (const onnx::TensorShapeProto::Dimension &dim : type.shape().dim()) {
      if (dim.value_case() != onnx::TensorShapeProto::Dimension::kDimValue)
        return Error{fmt::format(
            "dimension {} of input '{}' has no size (its name is '{}'); export the model with static shapes",
            shape.size(), input.name(), dim.dim_param())};
      shape.push_back(dim.dim_value());
    }
    if (Status status = checkShape(shape); !status)
      return withWayOut({fmt::format("input '{}' has {}", input.name(), status.error().message)}, kExportAgain);
    DType element = isFloat(*dtype) ? options.floatType : *dtype;
    arguments.push_back({input.name(), "input"});
    Term term = b.fromValue(block->addArgument(b.type(element, shape), unknown));
    if (narrow) { // the data may contain numbers that the format lacks
      b.setLocation(mlir::NameLoc::get(b.builder.getStringAttr(input.name())));
      KERF_TRY(rounded, toNarrow(b, *narrow, term, Saturate::Yes));
      term = rounded;
    }
    if (const NarrowFormat *half = halfFormat(type.elem_type()); half && keepsHalf) {
      b.setLocation(mlir::NameLoc::get(b.builder.getStringAttr(input.name())));
      KERF_TRY(rounded, toHalf(b, *half, term));
      term = rounded;
    }
    values[input.name()] = GraphValue{{std::move(term)}};
  }
  return ok();
}

Status GraphImport::addParameters() {
  std::set<std::string> read;
  for (int index : needed.nodes)
    forReads(graph().node(index), [&](const std::string &input) {
      read.insert(input);
      const Initializer *copy = file.find(input), *of = copy ? parameterTransposedTo(file, roles, *copy) : nullptr;
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
    if (keepsHalf) // an untrained tensor has only numbers of its format
      term.narrow = halfFormat(initializer.tensor.dtype);
    values[initializer.name] = GraphValue{{std::move(term)}};
    if (initializer.hasData())
      weights[initializer.name] = initializer.tensor;
  }
  if (!unused.empty())
    warnings.push_back(fmt::format("the loss does not depend on {} parameters, which are not trained: {}; choose "
                                   "another loss with <loss> to train them",
                                   unused.size(), fmt::join(unused, ", ")));
  return ok();
}

/// Finds the running statistics of batch normalizations in training mode.
void GraphImport::findUpdatedBuffers() {
  constexpr int kFirst = 3, kLast = 4; // the operands with the statistics
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
    values[name] = GraphValue{{b.fromValue(argument)}};
    if (initializer.hasData())
      weights[name] = initializer.tensor;
  }
}

Result<const GraphValue *> GraphImport::lookup(const std::string &name) {
  if (auto it = values.find(name); it != values.end())
    return &it->second;
  const Initializer *initializer = file.find(name);
  if (!initializer) {
    if (auto it = needed.producers.find(name); it != needed.producers.end())
      return Error{fmt::format("it reads '{}' before node '{}' computes it; the graph has a cycle or is not sorted",
                               name, nameOf(it->second))};
    return Error{fmt::format("it reads '{}', which no node computes; {}", name, kExportAgain)};
  }
  if (initializer->texts) {
    KERF_TRY(texts, textsFromProto(*initializer->texts));
    return &(values[name] = std::move(texts));
  }
  bool buffer = roles[initializer - file.initializers.data()] == InitializerRole::Buffer;
  if (!initializer->hasData()) {
    if (!isFloat(initializer->tensor.dtype) || initializer->tensor.shape.empty() || initializer->narrow)
      return Error{fmt::format("it needs the value of '{}', but the external data file of this tensor does not exist; "
                               "put the file into the folder of the model",
                               name)};
    mlir::Location at = mlir::NameLoc::get(b.builder.getStringAttr(name));
    arguments.push_back({name, buffer ? "buffer" : "constant"});
    return &(values[name] = GraphValue{
                 {b.fromValue(block->addArgument(b.type(options.floatType, initializer->tensor.shape), at))}});
  }
  if (const Initializer *of = buffer ? nullptr : parameterTransposedTo(file, roles, *initializer)) {
    KERF_TRY(transposed, b.transpose(values.at(of->name).terms.front(), {1, 0}));
    return &(values[name] = GraphValue{{std::move(transposed)}});
  }
  KERF_TRY(literal, literalFromTensor(initializer->tensor, options.floatType));
  Term term = b.fromLiteral(literal, name);
  if (buffer && isFloat(term.dtype))
    term.buffer = name;
  term.narrow = initializer->narrow;
  if (!term.narrow && keepsHalf)
    term.narrow = halfFormat(initializer->tensor.dtype);
  return &(values[name] = GraphValue{{std::move(term)}});
}

mlir::Location GraphImport::locationOf(const onnx::NodeProto &node, const std::string &nodeName) {
  std::string scope = moduleOf(node);
  // Nodes that an optimizer added have no module scope; they get the scope of their operand.
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
  std::vector<const GraphValue *> inputs;
  for (const std::string &input : proto.input()) {
    if (input.empty()) {
      inputs.push_back(nullptr);
      continue;
    }
    KERF_TRY(entry, lookup(input));
    inputs.push_back(entry);
  }
  // Pointers into the map stay valid. Absent operands at the end are removed.
  while (!inputs.empty() && !inputs.back())
    inputs.pop_back();
  int present = int(std::find(inputs.begin(), inputs.end(), nullptr) - inputs.begin());
  if (int(inputs.size()) > op.maxInputs || present < op.minInputs)
    return Error{fmt::format("it has {} operands, but {} to {} are needed", present, op.minInputs, op.maxInputs)};
  bool isEntries = op.operands == OperandKinds::Entries || op.operands == OperandKinds::Every,
       readsNarrow = op.operands == OperandKinds::Narrow || op.operands == OperandKinds::Every;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i])
      continue;
    GraphValueKind wanted =
        op.operands == OperandKinds::FirstSequence && i == 0 ? GraphValueKind::Sequence : GraphValueKind::Tensor;
    if (!isEntries && inputs[i]->kind != wanted)
      return Error{fmt::format("operand {} ('{}') is {}, but {} is needed", i, proto.input(int(i)),
                               toString(inputs[i]->kind), toString(wanted))};
    if (readsNarrow || inputs[i]->terms.empty())
      continue;
    if (const NarrowFormat *narrow = inputs[i]->terms.front().narrow; narrow && !isHalf(narrow))
      return Error{fmt::format(
          "operand {} ('{}') has the type {}, which only Cast, CastLike and Identity accept; cast it to {} first", i,
          proto.input(int(i)), narrow->name,
          isFloat(storageType(*narrow)) ? "a wider floating type" : "int8, uint8 or wider")};
  }
  for (const GraphValue *input : inputs)
    if (op.operands == OperandKinds::Constant && input && !input->terms.front().isConstant())
      return Error{"it is supported for constant operands only, but an operand is computed or has no data"};
  b.setLocation(locationOf(proto, name));
  OnnxNode node(proto, file.opset, b, std::move(inputs),
                [&](const onnx::GraphProto &subgraph, const std::vector<GraphValue> &given) {
                  return writeSubgraph(subgraph, given, name);
                });
  const NarrowFormat *casts = keepsHalf ? halfOfCast(node) : nullptr, *half = keepsHalf ? halfOfResults(node) : nullptr;
  KERF_CHECK(casts ? node.set(0, toHalf(b, *casts, node.input(0))) : op.import(node));
  for (const auto &[name, term] : node.updates()) {
    if (!updatedBuffers.count(name))
      return Error{fmt::format("it updates '{}', which is not a buffer of the model", name)};
    if (std::any_of(updates.begin(), updates.end(), [&](const auto &update) { return update.first == name; }))
      return Error{fmt::format("it updates '{}', which another node updates too", name)};
    updates.emplace_back(name, term);
  }
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty())
      continue;
    if (!node.results()[i])
      return Error{fmt::format("its output {} ('{}') is not supported", i, proto.output(i))};
    GraphValue entry = *node.results()[i];
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
      return Error{fmt::format("it computes '{}', but another value has this name already", proto.output(i))};
  }
  return ok();
}

/// Returns the looked-up rows with zeros where the index is `row`. The values are equal, as the row is zero, but the
/// row gets no gradient.
Result<Term> GraphImport::withoutRow(const Term &rows, const Term &indices, int64_t row) {
  KERF_TRY(isIt, b.compare(Order::Equal, indices, b.integer(indices.dtype, row)));
  if (isIt.isConstant() && allElementsEqual(*isIt.literal, 0))
    return rows;
  Shape column = indices.shape;
  column.push_back(1);
  KERF_TRY(everywhere, b.reshape(isIt, column));
  return b.select(everywhere, b.scalar(rows.dtype, 0), rows);
}

/// Imports a subgraph. Its names are removed afterwards, so that it can be imported again.
Result<std::vector<GraphValue>> GraphImport::writeSubgraph(const onnx::GraphProto &subgraph,
                                                           const std::vector<GraphValue> &inputs,
                                                           const std::string &outer) {
  if (size_t(subgraph.input_size()) != inputs.size())
    return Error{fmt::format("its subgraph has {} inputs, but {} are given", subgraph.input_size(), inputs.size())};
  nodesWrittenOut += 1 + subgraph.node_size();
  if (nodesWrittenOut > kMostWrittenOut)
    return Error{fmt::format("its subgraphs have {} nodes or more when unrolled, but at most {} are supported; export "
                             "the model with fewer iterations",
                             nodesWrittenOut, kMostWrittenOut)};
  std::vector<std::string> named;
  auto name = [&](const std::string &value, GraphValue entry) -> Status {
    if (needed.producers.count(value) || file.find(value) || !values.emplace(value, std::move(entry)).second)
      return Error{fmt::format("its subgraph computes '{}', but another value has this name already", value)};
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
    KERF_CHECK(name(initializer.name(), GraphValue{{std::move(term)}}));
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
  std::vector<GraphValue> outputs;
  for (const onnx::ValueInfoProto &output : subgraph.output()) {
    KERF_TRY(entry, lookup(output.name()));
    outputs.push_back(*entry);
  }
  for (const std::string &value : named)
    values.erase(value);
  return outputs;
}

/// Adds an input for labels that the graph does not have.
Term GraphImport::addLabels(const std::string &name, const Shape &shape) {
  // The argument is inserted after the other inputs, so that arguments of one kind stay together.
  auto behind = std::find_if(arguments.begin(), arguments.end(), [](const Argument &a) { return a.kind != "input"; });
  int position = int(behind - arguments.begin());
  arguments.insert(behind, {name, "input"});
  Term labels = b.fromValue(block->insertArgument(position, b.type(DType::I64, shape), unknown));
  values.emplace(name, GraphValue{{labels}});
  return labels;
}

bool GraphImport::isArgument(const std::string &name) const {
  return std::any_of(arguments.begin(), arguments.end(), [&](const Argument &one) { return one.name == name; });
}

/// Returns whether 16-bit parts of the model keep their format. A model whose trained parameters have 16 bits was
/// converted as a whole, and its types follow --dtype. In other models, casts and constants define the 16-bit parts.
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
                                   "bfloat16 have no effect, and the computation has the type of <dtype>; export the "
                                   "model in float32 to keep the casts",
                                   narrow.size(), narrow.front(), narrow.size() > 1 ? ", .." : ""));
}

Result<ImportedModel> GraphImport::run() {
  KERF_TRY(chosen, initializerRoles(file, options));
  roles = chosen;
  decideHalf();
  for (Initializer &initializer : file.initializers)
    if (auto it = replaced.find(initializer.name); it != replaced.end()) {
      if (it->second.shape != initializer.tensor.shape)
        return Error{fmt::format("<weights>: '{}' has the shape {}, but the model's tensor has {}; give the weights "
                                 "of this model",
                                 initializer.name, shapeText(it->second.shape), shapeText(initializer.tensor.shape))};
      if (initializer.narrow)
        return Error{fmt::format(
            "<weights>: '{}' has the narrow type {} in the model and cannot be replaced; remove it from the file",
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
      return withWayOut(
          {fmt::format("node '{}' ({}): {}", nameOf(index), graph().node(index).op_type(), status.error().message),
           status.error().status},
          kWriteNodeDifferently);
  auto labels = [&](const Shape &shape) { return addLabels(needed.loss.labels, shape); };
  KERF_TRY(loss, buildLoss(b, needed.loss, options.loss, values, labels));
  auto isNamed = [&](const std::string &name) { return isArgument(name); };
  KERF_TRY(metrics, buildMetrics(b, options.metrics, options.floatType, values, isNamed));
  return finish(loss, metrics);
}

/// Returns a description of each argument of the block, in order.
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

/// Erases unused arguments and returns the attributes of the others.
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
  // Operators without uses are erased; only their shapes were needed, or folding made them superfluous.
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
                         builder.getStringAttr("loss")); // the loss is called "loss", whatever its name in the export
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
