// SPDX-License-Identifier: Apache-2.0
// State of the stand-in for cuDNN: descriptors with their attributes, and graphs of operations read from them. The
// numbers are those of cuDNN's interface, written down here a second time, so that a wrong number in Kerf is found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kerf::standin::cudnn {

/// Values of cudnnStatus_t that the stand-in returns.
enum Status : int {
  kSuccess = 0,
  kBadParameter = 2000,
  kNullPointer = 2002,
  kMisaligned = 2003,
  kNotFinalized = 2004,
  kTooSmall = 2006,
  kShapeMismatch = 2008,
  kWrongType = 2010,
  kWrongKind = 2012,
  kUnsupportedPattern = 3001,
  kUnsupportedShape = 3002,
  kUnsupportedData = 3003,
  kExecutionFailed = 5000,
};

struct Descriptor;
using Reference = std::shared_ptr<const Descriptor>;

/// The value of an attribute.
struct Value {
  int type = 0;
  int64_t count = 0;
  std::vector<std::byte> bytes;      // of numbers and pointers
  std::vector<Reference> references; // of descriptors
};

struct Graph;

struct Descriptor {
  int kind = 0;
  bool isFinal = false;
  std::map<int, Value> values;        // by attribute
  std::shared_ptr<const Graph> graph; // of an operation graph, and of what is made from it
  int64_t engine = 0;                 // number of the engine, of engines, configurations and plans
};

/// A tensor of a graph.
struct Tensor {
  int64_t id = 0;
  int type = 0;
  std::vector<int64_t> dims, strides;
  int64_t alignment = 0;
  bool isVirtual = false, isByValue = false;

  int64_t elements() const {
    int64_t all = 1;
    for (int64_t size : dims)
      all *= size;
    return all;
  }
  /// Returns the number of elements from the first one to the last one in memory.
  int64_t span() const {
    int64_t last = 0;
    for (size_t d = 0; d < dims.size(); ++d)
      last += (dims[d] - 1) * strides[d];
    return last + 1;
  }
};

/// One operation. Its tensors are numbers in Graph::tensors; -1 for none.
struct Node {
  int kind = 0, mode = 0;
  int64_t axis = 0;
  int a = -1, b = -1, t = -1, y = -1;
  std::vector<int64_t> strides, dilations, before, after; // of a convolution
  float alpha = 1,
        beta = 0; // of a convolution: the result is alpha times the convolution plus beta times the old result
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
};

/// Remembers a text for cudnnGetLastErrorString and returns the status.
int fail(int status, const std::string &text);

/// Checks that a kind of descriptor has an attribute of this type. `setting` is false for reads.
int checkAttribute(int kind, int attribute, int type, bool setting);
/// Checks that all attributes that a kind of descriptor needs are set.
int checkComplete(const Descriptor &descriptor);

/// Reads numbers of an attribute; empty if it is not set.
std::vector<int64_t> integersOf(const Descriptor &descriptor, int attribute);
/// Reads one number; `otherwise` if it is not set.
int64_t integerOf(const Descriptor &descriptor, int attribute, int64_t otherwise);
/// Reads one float; 0 if it is not set.
float floatOf(const Descriptor &descriptor, int attribute);
/// Returns the descriptor that an attribute names; null if it is not set.
Reference referenceOf(const Descriptor &descriptor, int attribute);
/// Returns the bytes of an element of a type of attributes.
size_t bytesOfType(int type);

/// Reads the operations of an operation graph, and checks their tensors.
int readGraph(const std::vector<Reference> &operations, Graph &graph);

/// Checks that a graph is one that cuDNN computes: attention, its gradients, or one convolution.
int checkPattern(const Graph &graph);
/// The engines that the stand-in proposes for a graph, in their order.
std::vector<int64_t> enginesOf(const Graph &graph);
/// The numerical notes of an engine.
std::vector<int> notesOf(const Graph &graph, int64_t engine);
/// The bytes of workspace of an engine.
int64_t workspaceOf(const Graph &graph, int64_t engine);
/// Whether an engine may be run. Tests must not choose the others.
bool mayRun(const Graph &graph, int64_t engine);

/// Returns the bytes of an element of a type of tensors; 0 for types that the stand-in does not have.
int64_t bytesOfElement(int type);
/// Computes all operations. `memory` has the address of each tensor that is not virtual, readable by the host.
void evaluate(const Graph &graph, const std::vector<std::byte *> &memory);

} // namespace kerf::standin::cudnn
