// SPDX-License-Identifier: Apache-2.0
// Parses and checks an ONNX file. Inconsistencies of a damaged or hostile file are found here, before any operator is
// imported.
#pragma once

#include "kerf/Frontend/ModelSource.h"
#include "kerf/Package/TensorFile.h"
#include "onnx.pb.h"

namespace kerf::frontend {

struct NarrowFormat;

/// An initializer of the graph: a tensor whose data the file, or an external data file, holds.
struct Initializer {
  std::string name;
  Tensor tensor;          // `data` is null if its external file does not exist
  std::string kind;       // mark of PyTorch's exporter: "PARAMETER", "BUFFER" or "" (none)
  std::string foldedFrom; // text of the list of names that the exporter's optimizer folded into this tensor; "": none
  const onnx::TensorProto *texts = nullptr; // the stored texts of a string tensor, which has no numbers; null otherwise
  const NarrowFormat *narrow =
      nullptr; // the narrow format in the file from which `tensor` was decoded (Narrow.h); null: none
  /// Returns whether the data of the tensor exist.
  bool hasData() const { return tensor.data != nullptr; }
};

/// A parsed ONNX file.
struct OnnxFile {
  std::shared_ptr<const onnx::ModelProto> model;
  int64_t opset = 0; // version of the default operator set
  std::vector<Initializer> initializers;
  std::map<std::string, int, std::less<>> initializerIndex; // name -> index into `initializers`
  /// Names of tensors that the exporter had merged with an equal tensor, and that were separated into initializers of
  /// their own.
  std::vector<std::string> separated;
  /// External data files that do not exist, with the number of tensors stored in each.
  std::map<std::string, int> missingFiles;
  bool inMemory = false; // whether the model is in memory, so that no files can lie beside it

  /// Returns the initializer of that name, or null.
  const Initializer *find(std::string_view name) const {
    auto it = initializerIndex.find(name);
    return it == initializerIndex.end() ? nullptr : &initializers[it->second];
  }
};

/// Parses and checks an ONNX model. Fails when the file is damaged, too large or inconsistent.
Result<OnnxFile> readOnnx(const ModelSource &source);

/// Returns whether the tensor has elements and all of them have the same bits.
bool isUniform(const Tensor &tensor);
/// Returns the tensor whose data are inside `proto`; `owner` keeps the data alive. Data in a narrow format are decoded.
/// Fails when the data do not match the shape or are external.
Result<Tensor> tensorFromProto(const onnx::TensorProto &proto, std::shared_ptr<const void> owner);
/// Returns the element type for ONNX's number of the type. Fails for a type in which Kerf does not compute, narrow
/// formats included.
Result<DType> dtypeFromOnnx(int32_t type);
/// Returns the value of `key` in a metadata list, or "".
std::string metadata(const google::protobuf::RepeatedPtrField<onnx::StringPair> &pairs, std::string_view key);

} // namespace kerf::frontend
