// SPDX-License-Identifier: Apache-2.0
// An ONNX file, parsed and checked: what a damaged or hostile file can get wrong about itself is found here, before any
// op is looked at.
#pragma once

#include "kerf/Frontend/ModelSource.h"
#include "kerf/Package/TensorFile.h"
#include "onnx.pb.h"

namespace kerf::frontend {

struct NarrowFormat;

struct Initializer {
  std::string name;
  Tensor tensor;                            // data is null where the file that should hold it does not exist
  std::string kind;                         // "PARAMETER", "BUFFER" or "": what the exporter says of it
  std::string foldedFrom;                   // names that the exporter's optimizer folded into it, as its list text
  const onnx::TensorProto *texts = nullptr; // of a tensor of texts, which has no numbers
  const NarrowFormat *narrow = nullptr;     // the format in the file, where `tensor` is decoded from one (Narrow.h)
  bool hasData() const { return tensor.data != nullptr; }
};

struct OnnxFile {
  std::shared_ptr<const onnx::ModelProto> model;
  int64_t opset = 0; // of the default domain
  std::vector<Initializer> initializers;
  std::map<std::string, int, std::less<>> initializerIndex;
  /// What was merged with another tensor of the same value and is an initializer of its own again.
  std::vector<std::string> separated;
  /// External data files that do not exist, with the number of tensors that they should hold.
  std::map<std::string, int> missingFiles;

  const Initializer *find(std::string_view name) const {
    auto it = initializerIndex.find(name);
    return it == initializerIndex.end() ? nullptr : &initializers[it->second];
  }
};

Result<OnnxFile> readOnnx(const ModelSource &source);

/// Every element has the bits of the first, and there is one.
bool isOneNumber(const Tensor &tensor);
/// A tensor of the proto that holds its own data, which `owner` keeps alive; decoded where the format is a narrow one.
Result<Tensor> tensorFromProto(const onnx::TensorProto &proto, std::shared_ptr<const void> owner);
/// The element type of that number in the format; an error names the type where Kerf has none, or a narrow one.
Result<DType> dtypeFromOnnx(int32_t type);
/// The value of `key` in a metadata list, or "".
std::string metadata(const google::protobuf::RepeatedPtrField<onnx::StringPair> &pairs, std::string_view key);

} // namespace kerf::frontend
