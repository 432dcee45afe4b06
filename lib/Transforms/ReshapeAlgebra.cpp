// SPDX-License-Identifier: Apache-2.0
#include "ReshapeAlgebra.h"

#include "llvm/ADT/STLExtras.h"

namespace kerf {

bool isTrivial(const Parts &parts) {
  return llvm::all_of(parts, [](const Shape &part) { return part.size() == 1; });
}

Shape splitShape(const Parts &parts) {
  Shape shape;
  for (const Shape &part : parts)
    shape.insert(shape.end(), part.begin(), part.end());
  return shape;
}

std::vector<int64_t> firstPart(const Parts &parts) {
  std::vector<int64_t> first;
  int64_t next = 0;
  for (const Shape &part : parts) {
    first.push_back(next);
    next += static_cast<int64_t>(part.size());
  }
  return first;
}

Parts wholeParts(llvm::ArrayRef<int64_t> shape) {
  Parts parts;
  for (int64_t size : shape)
    parts.push_back({size});
  return parts;
}

std::optional<Parts> splitParts(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to) {
  Parts parts;
  size_t next = 0;
  for (int64_t size : from) {
    Shape part;
    int64_t product = 1;
    do {
      if (next == to.size() || (to[next] == 1 && size != 1))
        return std::nullopt;
      product *= to[next];
      part.push_back(to[next++]);
    } while (product < size);
    if (product != size)
      return std::nullopt;
    parts.push_back(std::move(part));
  }
  return next == to.size() ? std::optional(parts) : std::nullopt;
}

/// Computes the finest common parts of two shapes without sizes of 1, for each dimension of either shape.
static bool refine(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to, Parts &fromParts, Parts &toParts) {
  fromParts.assign(from.size(), {});
  toParts.assign(to.size(), {});
  size_t i = 0, j = 0;
  int64_t left = 1, right = 1; // the parts of from[i] and to[j] that are not matched yet
  while (true) {
    if (left == 1) {
      if (i == from.size())
        break;
      left = from[i++];
    }
    if (right == 1) {
      if (j == to.size())
        return false;
      right = to[j++];
    }
    int64_t part = std::min(left, right);
    if (part == 0 || left % part != 0 || right % part != 0)
      return false;
    fromParts[i - 1].push_back(part);
    toParts[j - 1].push_back(part);
    left /= part;
    right /= part;
  }
  return right == 1 && j == to.size();
}

/// Returns `shape` with each size other than 1 replaced by its parts, in order.
static Shape spread(llvm::ArrayRef<int64_t> shape, const Parts &wideParts) {
  Shape result;
  size_t next = 0;
  for (int64_t size : shape) {
    if (size == 1)
      result.push_back(1);
    else {
      result.insert(result.end(), wideParts[next].begin(), wideParts[next].end());
      ++next;
    }
  }
  return result;
}

std::optional<std::vector<Shape>> reshapeSteps(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to) {
  auto wide = [](llvm::ArrayRef<int64_t> shape) {
    Shape sizes;
    for (int64_t size : shape)
      if (size != 1)
        sizes.push_back(size);
    return sizes;
  };
  Parts fromParts, toParts;
  if (!refine(wide(from), wide(to), fromParts, toParts))
    return std::nullopt;
  std::vector<Shape> steps;
  for (const Shape &step : {spread(from, fromParts), spread(to, toParts), Shape(to.begin(), to.end())})
    if (llvm::ArrayRef<int64_t>(step) != (steps.empty() ? from : llvm::ArrayRef<int64_t>(steps.back())))
      steps.push_back(step);
  return steps;
}

} // namespace kerf
