// SPDX-License-Identifier: Apache-2.0
// Export of a plan as StableHLO text with the shardings of the plan in the dialect `sdy`, for compilers that read both,
// such as XLA.
#pragma once

#include "kerf/Sharding/Sharding.h"

#include <map>
#include <string_view>

namespace kerf {

/// A tensor of the plan: its shape in the program of the plan, and its sharding.
struct ShardedTensor {
  Shape shape;
  Sharding sharding;
};

/// The shardings of a StableHLO text.
struct TextShardings {
  Mesh mesh;
  std::vector<ShardedTensor> arguments; // of @main, in order
  /// For lines of the text, counted from 1: tensors of the plan that the operation on this line makes. The last one
  /// with the elements of the operation's result is the result.
  std::map<int64_t, std::vector<ShardedTensor>> lines;
};

/// A text with shardings.
struct AnnotatedText {
  std::string text;
  int64_t arguments = 0, constraints = 0; // number of sharded arguments, and of constraints inside
  std::vector<std::string> left;          // tensors that got no sharding, with the reason
};

/// Returns the text with a mesh, with shardings of the arguments and with sharding constraints on results. Fails where
/// an argument's sharding cannot be written for the shape that the text has, and where the text has another form than
/// the one that JAX prints.
Result<AnnotatedText> annotate(std::string_view text, const TextShardings &shardings);

} // namespace kerf
