// SPDX-License-Identifier: Apache-2.0
#include "CudnnBuilder.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

namespace kerf::runtime::cuda {

int addTensor(CudnnGraph &graph, GraphTensor tensor) {
  graph.tensors.push_back(std::move(tensor));
  return int(graph.tensors.size()) - 1;
}

int addVirtual(CudnnGraph &graph, std::vector<int64_t> dims, CudnnData type) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;)
    strides[d - 1] = strides[d] * dims[d];
  return addTensor(graph, {type, std::move(dims), std::move(strides), true});
}

int addValue(CudnnGraph &graph, float value, size_t rank) {
  GraphTensor tensor{kDataFloat, std::vector<int64_t>(rank, 1), std::vector<int64_t>(rank, 1)};
  tensor.value = value;
  return addTensor(graph, std::move(tensor));
}

int addNode(CudnnGraph &graph, GraphNode node) {
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().y;
}

std::string textOf(const CudnnGraph &graph) {
  std::string text;
  for (const GraphTensor &t : graph.tensors)
    text += fmt::format("tensor {} {} {} {} {} {}\n", int(t.type), t.dims, t.strides, t.isVirtual,
                        t.value ? fmt::format("{}", *t.value) : "", t.alignment);
  for (const GraphNode &n : graph.nodes)
    text += fmt::format("node {} {} {} {} {} {} {} {} {} {} {} {}\n", int(n.kind), n.mode, int(n.compute), n.a, n.b,
                        n.t, n.y, n.axis, n.window.strides, n.window.dilations, n.window.before, n.window.after);
  return text;
}

double multiplicationsOf(const CudnnGraph &graph) {
  auto elements = [&](int tensor) {
    double all = 1;
    for (int64_t size : graph.tensors[size_t(tensor)].dims)
      all *= double(size);
    return all;
  };
  double all = 0;
  for (const GraphNode &node : graph.nodes) {
    if (node.kind == kMatmulOperation)
      all += elements(node.y) * double(graph.tensors[size_t(node.a)].dims[3]);
    // Each element of a convolution's result is a sum over the elements of the kernel of one output channel.
    bool isForward = node.kind == kConvolutionForward, isFilter = node.kind == kConvolutionFilterGradient;
    if (isForward || isFilter || node.kind == kConvolutionDataGradient) {
      int kernel = isFilter ? node.y : node.b, result = isForward ? node.y : isFilter ? node.b : node.a;
      all += elements(result) * elements(kernel) / double(graph.tensors[size_t(kernel)].dims[0]);
    }
  }
  return all;
}

int64_t bytesOf(const GraphTensor &tensor) {
  if (tensor.isVirtual || tensor.value)
    return 0;
  int64_t last = 0;
  for (size_t d = 0; d < tensor.dims.size(); ++d)
    last += (tensor.dims[d] - 1) * tensor.strides[d];
  return (last + 1) * (tensor.type == kDataFloat || tensor.type == kDataInt32 ? 4
                       : tensor.type == kDataBoolean                          ? 1
                                                                              : 2);
}

namespace {
/// Returns the engine configurations that cuDNN proposes for a graph, the fastest ones first.
std::vector<Descriptor> configurations(const Cudnn &cudnn, Builder &b, const Descriptor &graph,
                                       const std::optional<Descriptor> &device) {
  std::vector<Descriptor> all;
  for (int mode : {kHeuristicsA, kHeuristicsFallback}) {
    Builder own(cudnn); // a mode without an answer leaves the other mode's
    Descriptor heuristics = own.make(kHeuristics);
    own.set(heuristics, kHeuristicsGraph, graph);
    own.set(heuristics, kHeuristicsMode, kTypeHeuristicsMode, mode);
    if (device)
      own.set(heuristics, kHeuristicsDevice, *device);
    own.finalize(heuristics);
    int64_t count = 0;
    if (own.result == 0)
      own.result = cudnn.getAttribute(heuristics.get(), kHeuristicsResults, kTypeDescriptor, 0, &count, nullptr);
    std::vector<Descriptor> results;
    std::vector<CudnnDescriptor> handles;
    for (int64_t i = 0; i < count && own.result == 0; ++i) {
      results.push_back(own.make(kEngineConfig));
      handles.push_back(results.back().get());
    }
    if (own.result == 0 && count > 0)
      own.result =
          cudnn.getAttribute(heuristics.get(), kHeuristicsResults, kTypeDescriptor, count, &count, handles.data());
    if (own.result != 0) {
      b.result = own.result;
      continue;
    }
    for (size_t i = 0; i < size_t(count); ++i)
      all.push_back(std::move(results[i]));
  }
  if (!all.empty())
    b.result = 0;
  return all;
}

/// The notes that exclude an engine: inputs or sums are rounded further.
constexpr int kRefusedNotes[] = {kNoteConvertsInputs, kNoteReducedSums, kNoteFourier,   kNoteWinograd,
                                 kNoteWinograd4,      kNoteWinograd6,   kNoteWinograd13};

/// Whether a graph multiplies float32 numbers of memory. Tensor cores would round them to TF32 first.
bool multipliesFloats(const CudnnGraph &graph) {
  auto isFloat = [&](int tensor) { return graph.tensors[size_t(tensor)].type == kDataFloat; };
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode &node) {
    bool isConvolution = node.kind == kConvolutionForward || node.kind == kConvolutionDataGradient ||
                         node.kind == kConvolutionFilterGradient;
    return isConvolution && (isFloat(node.a) || isFloat(node.b));
  });
}

/// Whether an engine is known to compute wrong numbers for a graph. On an H200, engine 1 of cuDNN 9.19 computed wrong
/// gradients of kernels where the padding before and after a dimension differ.
bool computesWrongly(const CudnnGraph &graph, int64_t engine) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode &node) {
    return node.kind == kConvolutionFilterGradient && engine == 1 && node.window.before != node.window.after;
  });
}

/// An engine's number, and the first of its numerical notes that excludes it, or -1.
struct EngineFacts {
  int64_t index = -1;
  int refusedNote = -1;
};
/// Reads the engine of a configuration. `floats` refuses tensor cores, and `deterministic` sums whose order changes.
EngineFacts engineOf(const Cudnn &cudnn, Builder &b, const Descriptor &configuration, bool floats, bool deterministic) {
  Descriptor engine = b.make(kEngine);
  CudnnDescriptor handle = engine.get();
  EngineFacts facts;
  int64_t count = 0;
  std::vector<int> notes(32);
  if (b.result == 0)
    b.result = cudnn.getAttribute(configuration.get(), kEngineConfigEngine, kTypeDescriptor, 1, &count, &handle);
  if (b.result == 0)
    b.result = cudnn.getAttribute(engine.get(), kEngineIndex, kTypeInt64, 1, &count, &facts.index);
  count = 0;
  if (b.result == 0)
    b.result = cudnn.getAttribute(engine.get(), kEngineNumericalNotes, kTypeNumericalNote, int64_t(notes.size()),
                                  &count, notes.data());
  notes.resize(size_t(std::clamp<int64_t>(count, 0, int64_t(notes.size()))));
  for (int note : notes)
    if (std::find(std::begin(kRefusedNotes), std::end(kRefusedNotes), note) != std::end(kRefusedNotes) ||
        (floats && note == kNoteTensorCores) || (deterministic && note == kNoteNondeterministic))
      facts.refusedNote = note;
  return facts;
}
} // namespace

Result<CudnnPlans> plansOf(const Cudnn &cudnn, const PlanTarget &target, const CudnnGraph &graph,
                           const PlanLimits &limits, size_t tries, std::string &reason) {
  CudnnPlans plans;
  Builder b(cudnn);
  auto failed = [&](std::string_view what) -> Result<CudnnPlans> {
    if (!isUnsupported(b.result))
      return cudnnError(cudnn, b.result, what);
    reason += cudnnError(cudnn, b.result, what).message + "\n";
    return plans;
  };
  std::optional<Descriptor> device;
  if (!target.properties.empty()) {
    device = b.make(kDeviceProperties);
    b.set(*device, kDeviceJson, kTypeChar, target.properties.c_str(), target.properties.size() + 1);
    b.finalize(*device);
  }
  Operations all = operationsOf(b, graph);
  Descriptor whole = b.make(kOperationGraph);
  std::vector<CudnnDescriptor> handles;
  for (const Descriptor &one : all.operations)
    handles.push_back(one.get());
  b.set(whole, kGraphOperations, kTypeDescriptor, handles.data(), handles.size());
  if (!device)
    b.set(whole, kGraphHandle, kTypeHandle, target.handle);
  b.finalize(whole);
  if (b.result != 0)
    return failed("take the graph of an instruction");
  std::vector<Descriptor> proposed = configurations(cudnn, b, whole, device);
  if (b.result != 0)
    return failed("propose an engine for the graph of an instruction");
  if (proposed.empty())
    reason += "cuDNN proposes no engine\n";
  auto parts = std::make_shared<std::vector<Descriptor>>();
  for (auto *list : {&all.tensors, &all.settings, &all.operations})
    std::move(list->begin(), list->end(), std::back_inserter(*parts));
  parts->push_back(std::move(whole));
  for (Descriptor &configuration : proposed) {
    if (!plans.empty() && --tries == 0)
      break;
    EngineFacts engine = engineOf(cudnn, b, configuration, multipliesFloats(graph), limits.deterministic);
    if (b.result != 0)
      return failed("describe an engine");
    if (engine.refusedNote >= 0) {
      reason += fmt::format("engine {} has the numerical note {}\n", engine.index, engine.refusedNote);
      continue;
    }
    if (computesWrongly(graph, engine.index)) {
      reason += fmt::format("engine {} computes wrong gradients of kernels where padding is uneven\n", engine.index);
      continue;
    }
    Descriptor plan = b.make(kExecutionPlan);
    b.set(plan, kPlanEngineConfig, configuration);
    if (device)
      b.set(plan, kPlanDevice, *device);
    else
      b.set(plan, kPlanHandle, kTypeHandle, target.handle);
    b.finalize(plan);
    int64_t bytes = 0, count = 0;
    if (b.result == 0)
      b.result = cudnn.getAttribute(plan.get(), kPlanWorkspaceBytes, kTypeInt64, 1, &count, &bytes);
    if (b.result != 0) {
      auto failure = failed("plan the graph of an instruction");
      if (!failure)
        return failure;
      b.result = 0;
      continue;
    }
    if (bytes <= limits.mostBytes)
      plans.push_back(std::make_shared<const CudnnPlan>(
          CudnnPlan{parts, std::move(configuration), std::move(plan), engine.index, bytes}));
    else
      reason += fmt::format("engine {} needs {} bytes of workspace, and {} are the most\n", engine.index, bytes,
                            limits.mostBytes);
  }
  return plans;
}

Result<std::shared_ptr<const Descriptor>> bindTensors(const Cudnn &cudnn, const CudnnGraph &graph,
                                                      const std::vector<void *> &addresses, void *workspace) {
  Builder b(cudnn);
  std::vector<int64_t> ids;
  std::vector<const void *> pointers;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const GraphTensor &tensor = graph.tensors[i];
    if (tensor.isVirtual)
      continue;
    ids.push_back(idOf(int(i)));
    pointers.push_back(tensor.value ? static_cast<const void *>(&*tensor.value) : addresses[i]);
  }
  Descriptor pack = b.make(kVariantPack);
  b.set(pack, kPackIds, ids);
  b.set(pack, kPackPointers, kTypePointer, pointers.data(), pointers.size());
  b.set(pack, kPackWorkspace, kTypePointer, workspace);
  b.finalize(pack);
  if (b.result != 0)
    return cudnnError(cudnn, b.result, "take the addresses of an instruction's tensors");
  return std::make_shared<const Descriptor>(std::move(pack));
}

} // namespace kerf::runtime::cuda
