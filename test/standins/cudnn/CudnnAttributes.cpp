// SPDX-License-Identifier: Apache-2.0
// The attributes that each kind of descriptor has, with their types.
#include "CudnnState.h"

#include <cstring>

namespace kerf::standin::cudnn {

namespace {
// Types of attributes.
constexpr int kHandle = 0, kData = 1, kBoolean = 2, kInt64 = 3, kFloat = 4, kPointer = 6, kConvolutionMode = 7,
              kHeuristicsMode = 8, kNote = 11, kPointwiseMode = 14, kDescriptor = 15, kReduction = 18;

enum class Use { Needed, Optional, ReadOnly };

struct Attribute {
  int kind, number, type;
  Use use = Use::Needed;
  int kindOfReference = -1; // of attributes that name a descriptor
};

constexpr Attribute kAttributes[] = {
    {0, 0, kPointwiseMode},
    {0, 1, kData},
    {0, 9, kInt64, Use::Optional},
    {1, 100, kData},
    {1, 101, kConvolutionMode},
    {1, 102, kInt64},
    {1, 103, kInt64},
    {1, 104, kInt64},
    {1, 105, kInt64},
    {1, 106, kInt64},
    {2, 1301, kInt64, Use::ReadOnly},
    {2, 1303, kNote, Use::ReadOnly},
    {3, 300, kDescriptor, Use::ReadOnly, 2},
    {4, 200, kHeuristicsMode},
    {4, 201, kDescriptor, Use::Needed, 15},
    {4, 202, kDescriptor, Use::ReadOnly, 3},
    {5, 400, kHandle},
    {5, 401, kDescriptor, Use::Needed, 3},
    {5, 402, kInt64, Use::ReadOnly},
    {10, 700, kFloat},
    {10, 701, kFloat},
    {10, 702, kDescriptor, Use::Needed, 1},
    {10, 703, kDescriptor, Use::Needed, 17},
    {10, 704, kDescriptor, Use::Needed, 17},
    {10, 705, kDescriptor, Use::Needed, 17},
    {11, 712, kFloat},
    {11, 713, kFloat},
    {11, 714, kDescriptor, Use::Needed, 1},
    {11, 715, kDescriptor, Use::Needed, 17},
    {11, 716, kDescriptor, Use::Needed, 17},
    {11, 717, kDescriptor, Use::Needed, 17},
    {12, 706, kFloat},
    {12, 707, kFloat},
    {12, 708, kDescriptor, Use::Needed, 1},
    {12, 709, kDescriptor, Use::Needed, 17},
    {12, 710, kDescriptor, Use::Needed, 17},
    {12, 711, kDescriptor, Use::Needed, 17},
    {13, 750, kDescriptor, Use::Needed, 0},
    {13, 751, kDescriptor, Use::Needed, 17},
    {13, 752, kDescriptor, Use::Optional, 17},
    {13, 753, kDescriptor, Use::Needed, 17},
    {13, 758, kDescriptor, Use::Optional, 17},
    {15, 800, kHandle},
    {15, 801, kDescriptor, Use::Needed, -1},
    {16, 1000, kInt64},
    {16, 1001, kPointer},
    {16, 1003, kPointer},
    {17, 900, kInt64},
    {17, 901, kData},
    {17, 902, kInt64},
    {17, 903, kInt64},
    {17, 906, kInt64},
    {17, 907, kBoolean, Use::Optional},
    {17, 908, kBoolean, Use::Optional},
    {18, 1500, kData},
    {19, 1520, kDescriptor, Use::Needed, 17},
    {19, 1521, kDescriptor, Use::Needed, 17},
    {19, 1522, kDescriptor, Use::Needed, 17},
    {19, 1523, kDescriptor, Use::Needed, 18},
    {21, 1600, kReduction},
    {21, 1601, kData},
    {22, 1610, kDescriptor, Use::Needed, 17},
    {22, 1611, kDescriptor, Use::Needed, 17},
    {22, 1612, kDescriptor, Use::Needed, 21},
    {31, 2200, kDescriptor, Use::Needed, 17},
    {31, 2201, kDescriptor, Use::Needed, 17},
};

const Attribute *find(int kind, int number) {
  for (const Attribute &one : kAttributes)
    if (one.kind == kind && one.number == number)
      return &one;
  return nullptr;
}
} // namespace

size_t bytesOfType(int type) {
  switch (type) {
  case kBoolean:
    return 1;
  case kHandle:
  case kInt64:
  case kPointer:
  case kDescriptor:
    return 8;
  default:
    return 4; // enumerations and floats
  }
}

int checkAttribute(int kind, int attribute, int type, bool setting) {
  const Attribute *found = find(kind, attribute);
  std::string what = "attribute " + std::to_string(attribute) + " of descriptor kind " + std::to_string(kind);
  if (!found)
    return fail(kBadParameter, "there is no " + what);
  if (found->type != type)
    return fail(kWrongType, what + " has type " + std::to_string(found->type) + ", not " + std::to_string(type));
  if (setting && found->use == Use::ReadOnly)
    return fail(kBadParameter, what + " cannot be set");
  return kSuccess;
}

int checkComplete(const Descriptor &descriptor) {
  bool known = false;
  for (const Attribute &one : kAttributes) {
    if (one.kind != descriptor.kind)
      continue;
    known = true;
    auto value = descriptor.values.find(one.number);
    bool isSet = value != descriptor.values.end() && value->second.count > 0;
    std::string what =
        "attribute " + std::to_string(one.number) + " of descriptor kind " + std::to_string(descriptor.kind);
    if (!isSet && one.use == Use::Needed)
      return fail(kBadParameter, what + " is not set");
    if (isSet && one.kindOfReference >= 0)
      for (const Reference &reference : value->second.references)
        if (reference->kind != one.kindOfReference)
          return fail(kWrongKind, what + " is a descriptor of kind " + std::to_string(reference->kind));
  }
  return known ? int(kSuccess) : fail(kWrongKind, "there is no such kind of descriptor");
}

std::vector<int64_t> integersOf(const Descriptor &descriptor, int attribute) {
  auto found = descriptor.values.find(attribute);
  if (found == descriptor.values.end())
    return {};
  const Value &value = found->second;
  size_t width = bytesOfType(value.type);
  std::vector<int64_t> numbers(size_t(value.count), 0);
  for (size_t i = 0; i < numbers.size(); ++i)
    if (width == 4) {
      int32_t number = 0;
      std::memcpy(&number, value.bytes.data() + i * width, width);
      numbers[i] = number;
    } else {
      std::memcpy(&numbers[i], value.bytes.data() + i * width, width);
    }
  return numbers;
}

int64_t integerOf(const Descriptor &descriptor, int attribute, int64_t otherwise) {
  std::vector<int64_t> numbers = integersOf(descriptor, attribute);
  return numbers.empty() ? otherwise : numbers[0];
}

float floatOf(const Descriptor &descriptor, int attribute) {
  auto found = descriptor.values.find(attribute);
  float value = 0;
  if (found != descriptor.values.end())
    std::memcpy(&value, found->second.bytes.data(), sizeof value);
  return value;
}

Reference referenceOf(const Descriptor &descriptor, int attribute) {
  auto found = descriptor.values.find(attribute);
  return found == descriptor.values.end() || found->second.references.empty() ? nullptr : found->second.references[0];
}

} // namespace kerf::standin::cudnn
