// SPDX-License-Identifier: Apache-2.0
// Graphs of operations as plain data, and the plans by which cuDNN computes them.
#pragma once

#include "Cudnn.h"
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kerf::runtime::cuda {

/// A tensor of a graph. Its number in CudnnGraph::tensors names it.
struct GraphTensor {
  CudnnData type = kDataFloat;
  std::vector<int64_t> dims, strides; // in elements
  bool isVirtual = false;             // exists only inside of the graph: its strides have no meaning in memory
  std::optional<float> value = {};    // the value of a constant with one element, which is no memory of the GPU
  int64_t alignment = 16;             // bytes by which the tensor's address can be divided
};

/// The window of a convolution, by spatial dimension.
struct GraphWindow {
  std::vector<int64_t> strides, dilations, before, after; // `before` and `after`: rows of padding
};

/// An operation of a graph. Its operands and its result are numbers of tensors; -1 where an operation has none.
struct GraphNode {
  /// kPointwiseOperation, kMatmulOperation, kReductionOperation, kReshapeOperation, or a kind of convolution.
  CudnnKind kind = kPointwiseOperation;
  int mode = 0;                   // the pointwise mode or the operator of the reduction
  CudnnData compute = kDataFloat; // type in which the operation computes
  int a = -1, b = -1, t = -1;     // operands: b of binary operations, t the condition of a selection
  int y = -1;                     // the result
  int64_t axis = -1;              // the dimension whose indices kIndex gives
  GraphWindow window = {};        // of convolutions
};

/// A graph of operations, in an order in which they can be computed.
struct CudnnGraph {
  std::vector<GraphTensor> tensors;
  std::vector<GraphNode> nodes;
};

/// Adds a tensor and returns its number.
int addTensor(CudnnGraph &graph, GraphTensor tensor);
/// Adds a tensor that exists only inside of the graph, with row-major strides, and returns its number.
int addVirtual(CudnnGraph &graph, std::vector<int64_t> dims, CudnnData type = kDataFloat);
/// Adds a constant with `rank` dimensions and one element, and returns its number.
int addValue(CudnnGraph &graph, float value, size_t rank);
/// Adds a node and returns the number of its result.
int addNode(CudnnGraph &graph, GraphNode node);

/// Returns the graph as text. Graphs with the same text have the same plans.
std::string textOf(const CudnnGraph &graph);
/// Returns the multiplications of numbers in all matrix products and convolutions of a graph.
double multiplicationsOf(const CudnnGraph &graph);
/// Returns the bytes from the first element of a tensor in memory to the last one; 0 for other tensors.
int64_t bytesOf(const GraphTensor &tensor);

/// A descriptor of cuDNN, which it destroys at the end.
class Descriptor {
public:
  Descriptor(const Cudnn &cudnn, CudnnDescriptor handle) : cudnn(&cudnn), handle(handle) {}
  Descriptor(Descriptor &&other) noexcept : cudnn(other.cudnn), handle(std::exchange(other.handle, nullptr)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(cudnn, other.cudnn);
    std::swap(handle, other.handle);
    return *this;
  }
  ~Descriptor() {
    if (handle)
      cudnn->destroyDescriptor(handle);
  }
  CudnnDescriptor get() const { return handle; }

private:
  const Cudnn *cudnn;
  CudnnDescriptor handle;
};

/// The device for which a plan is made: an open handle of cuDNN, or the properties of a GPU that this machine does not
/// have, in cuDNN's JSON form, for a plan that is not executed.
struct PlanTarget {
  CudnnHandle handle = nullptr;
  std::string properties = {};
};

/// A way to compute a graph.
struct CudnnPlan {
  /// The descriptors of which the plan was made. They live as long as the plan, because cuDNN does not say that they may
  /// be destroyed earlier.
  std::shared_ptr<const std::vector<Descriptor>> graph;
  Descriptor configuration, plan;
  int64_t engine = 0;         // cuDNN's number of the engine
  int64_t workspaceBytes = 0; // bytes of memory that the plan needs besides the tensors
};
using CudnnPlans = std::vector<std::shared_ptr<const CudnnPlan>>;

/// The limits of the plans of a graph.
struct PlanLimits {
  int64_t mostBytes = 0;     // bytes of workspace
  bool deterministic = true; // whether the results have the same bits in every run
};

/// Returns plans that compute the graph within the limits and do not round its inputs or its sums further: the first
/// such plan of cuDNN's heuristics, and those among the `tries` - 1 proposals after it. If there is none, `reason` says
/// why.
Result<CudnnPlans> plansOf(const Cudnn &cudnn, const PlanTarget &target, const CudnnGraph &graph,
                           const PlanLimits &limits, size_t tries, std::string &reason);

/// The tensors of a graph and a workspace in memory, for one execution of a plan. `addresses` has an address for each
/// tensor of the graph; null for virtual tensors and constants.
Result<std::shared_ptr<const Descriptor>> bindTensors(const Cudnn &cudnn, const CudnnGraph &graph,
                                                      const std::vector<void *> &addresses, void *workspace);

} // namespace kerf::runtime::cuda
