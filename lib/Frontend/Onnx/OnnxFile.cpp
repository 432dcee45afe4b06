// SPDX-License-Identifier: Apache-2.0
// Parses the protobuf of an ONNX model, and finds the data of every initializer: in the file, in an external file, or
// missing.
#include "Onnx/OnnxFile.h"
#include "Common/Literal.h"
#include "Common/Narrow.h"
#include "Common/WayOut.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <set>

namespace kerf::frontend {

namespace {

constexpr int32_t kExternal = 1; // TensorProto.DataLocation.EXTERNAL
constexpr std::string_view kKindKey = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr std::string_view kFoldedKey = "pkg.onnxscript.optimizer.folded_from";

Result<Shape> shapeOf(const onnx::TensorProto &proto) {
  Shape shape(proto.dims().begin(), proto.dims().end());
  if (Status status = checkShape(shape); !status)
    return Error{fmt::format("tensor '{}' has {}", proto.name(), status.error().message)};
  return shape;
}

/// The type and shape of a tensor in the file.
struct Stored {
  DType dtype; // type in which the tensor is stored in memory
  Shape shape;
  const NarrowFormat *narrow = nullptr;

  int64_t bytes() const {
    return narrow ? packedBytes(*narrow, elementsOf(shape)) : Tensor{dtype, shape, nullptr, nullptr}.bytes();
  }
  std::string_view type() const { return narrow ? narrow->name : toString(dtype); }
};

Result<Stored> storedOf(const onnx::TensorProto &proto) {
  const NarrowFormat *narrow = narrowFormat(proto.data_type());
  Result<DType> dtype = narrow ? storageType(*narrow) : dtypeFromOnnx(proto.data_type());
  if (!dtype)
    return Error{fmt::format("tensor '{}': {}", proto.name(), dtype.error().message)};
  Result<Shape> shape = shapeOf(proto);
  if (!shape)
    return shape.error();
  return Stored{*dtype, std::move(*shape), narrow};
}

/// Returns the tensor whose data are at `data`, kept alive by `owner`; packed narrow formats are decoded.
Tensor tensorOf(const Stored &stored, const std::byte *data, std::shared_ptr<const void> owner) {
  if (stored.narrow && data)
    return decodedTensor(*stored.narrow, stored.shape, data);
  return Tensor{stored.dtype, stored.shape, data, std::move(owner)};
}

/// Reads packed elements from the field int32_data, each of whose entries holds one byte of raw_data.
Result<Tensor> fromPackedField(const onnx::TensorProto &proto, const Stored &stored) {
  if (proto.int32_data_size() != stored.bytes())
    return Error{fmt::format("tensor '{}' of shape {} and type {} needs {} entries of int32_data, but it has {}",
                             proto.name(), shapeText(stored.shape), stored.type(), stored.bytes(),
                             proto.int32_data_size())};
  std::vector<std::byte> packed;
  for (int32_t entry : proto.int32_data())
    packed.push_back(static_cast<std::byte>(entry));
  return decodedTensor(*stored.narrow, stored.shape, packed.data());
}

/// Reads data from the typed field that ONNX prescribes for the element type.
Result<Tensor> fromTypedFields(const onnx::TensorProto &proto, const Stored &stored) {
  if (stored.narrow)
    return fromPackedField(proto, stored);
  const auto &[dtype, shape, none] = stored;
  int64_t elements = elementsOf(shape), given = 0;
  bool half = dtype == DType::F16 || dtype == DType::BF16;
  if (dtype == DType::F32)
    given = proto.float_data_size();
  else if (dtype == DType::F64)
    given = proto.double_data_size();
  else if (dtype == DType::I64)
    given = proto.int64_data_size();
  else if (dtype == DType::U64 || dtype == DType::U32)
    given = proto.uint64_data_size();
  else
    given = proto.int32_data_size();
  if (given != elements)
    return Error{fmt::format("tensor '{}' of shape {} needs {} elements, but its data has {}", proto.name(),
                             shapeText(shape), elements, given)};
  auto [tensor, memory] = allocateTensor(dtype, shape);
  auto copy = [&, to = memory](const auto &field, auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < elements; ++i)
      reinterpret_cast<T *>(to)[i] = static_cast<T>(field[int(i)]);
  };
  if (dtype == DType::F32)
    copy(proto.float_data(), float{});
  else if (dtype == DType::F64)
    copy(proto.double_data(), double{});
  else if (dtype == DType::I64)
    copy(proto.int64_data(), int64_t{});
  else if (half)
    copy(proto.int32_data(), uint16_t{});
  else if (dtype == DType::I32)
    copy(proto.int32_data(), int32_t{});
  else if (dtype == DType::U64)
    copy(proto.uint64_data(), uint64_t{});
  else if (dtype == DType::U32)
    copy(proto.uint64_data(), uint32_t{});
  else if (dtype == DType::I16 || dtype == DType::U16)
    copy(proto.int32_data(), uint16_t{});
  else
    copy(proto.int32_data(), uint8_t{}); // I8, U8 and Bool are in the low byte
  return tensor;
}

struct ExternalPlace {
  std::string location;
  int64_t offset = 0, length = -1;
};

Result<ExternalPlace> externalPlace(const onnx::TensorProto &proto) {
  ExternalPlace place;
  for (const onnx::StringPair &pair : proto.external_data()) {
    if (pair.key() == "location") {
      place.location = pair.value();
      continue;
    }
    if (pair.key() != "offset" && pair.key() != "length")
      continue;
    int64_t &number = pair.key() == "offset" ? place.offset : place.length;
    const char *end = pair.value().data() + pair.value().size();
    auto [stop, status] = std::from_chars(pair.value().data(), end, number);
    if (status != std::errc() || stop != end || number < 0)
      return Error{fmt::format("tensor '{}': the {} of its external data is '{}', which is not a number of bytes",
                               proto.name(), pair.key(), pair.value())};
  }
  std::filesystem::path path(place.location);
  bool escapes = path.is_absolute();
  for (const auto &part : path)
    escapes |= part == "..";
  if (place.location.empty() || escapes || place.location.find('\0') != std::string::npos)
    return Error{fmt::format("tensor '{}': its external data is at '{}', which is not a file inside the model's folder",
                             proto.name(), place.location)};
  return place;
}

/// Memory-maps each external file once. A file that does not exist is a null pointer.
class ExternalFiles {
public:
  explicit ExternalFiles(const ModelSource &source) : source(source) {}

  Result<std::shared_ptr<const MappedFile>> open(const std::string &location) {
    if (auto it = files.find(location); it != files.end())
      return it->second;
    std::error_code code;
    const std::string path = source.beside(location);
    if (!std::filesystem::exists(path, code))
      return files[location] = nullptr;
    Result<std::shared_ptr<const MappedFile>> file = mapFile(path);
    if (file)
      files[location] = *file;
    return file;
  }

private:
  const ModelSource &source;
  std::map<std::string, std::shared_ptr<const MappedFile>> files;
};

Result<Tensor> externalTensor(const onnx::TensorProto &proto, const Stored &stored, ExternalFiles &files,
                              OnnxFile &onnx) {
  Result<ExternalPlace> place = externalPlace(proto);
  if (!place)
    return place.error();
  const int64_t bytes = stored.bytes();
  if (place->length >= 0 && place->length != bytes)
    return Error{fmt::format("tensor '{}' of shape {} and type {} needs {} bytes, but its external data has {}",
                             proto.name(), shapeText(stored.shape), stored.type(), bytes, place->length)};
  Result<std::shared_ptr<const MappedFile>> file = files.open(place->location);
  if (!file)
    return withWayOut(file.error(), "make the file readable");
  if (!*file) {
    ++onnx.missingFiles[place->location];
    return tensorOf(stored, nullptr, nullptr);
  }
  int64_t size = int64_t((*file)->bytes);
  if (place->offset > size || bytes > size - place->offset)
    return Error{
        fmt::format("tensor '{}' has {} bytes from byte {} on in '{}', but the file has only {} bytes; it is truncated",
                    proto.name(), bytes, place->offset, place->location, size)};
  return tensorOf(stored, (*file)->data + place->offset, *file);
}

Status readInitializers(OnnxFile &file, const ModelSource &source) {
  const onnx::GraphProto &graph = file.model->graph();
  ExternalFiles files(source);
  for (const onnx::TensorProto &proto : graph.initializer()) {
    if (proto.name().empty())
      return Error{"an initializer has no name"};
    if (!file.initializerIndex.emplace(proto.name(), int(file.initializers.size())).second)
      return Error{fmt::format("two initializers are called '{}'", proto.name())};
    Initializer initializer{proto.name(), {}, {}, {}, nullptr, narrowFormat(proto.data_type())};
    Result<Tensor> tensor = Error{""};
    if (proto.data_type() == onnx::TensorProto::STRING) {
      initializer.texts = &proto;
      tensor = allocateTensor(DType::U8, {0}).first;
    } else if (proto.data_location() == kExternal) {
      Result<Stored> stored = storedOf(proto);
      if (!stored)
        return stored.error();
      tensor = externalTensor(proto, *stored, files, file);
    } else {
      tensor = tensorFromProto(proto, file.model);
    }
    if (!tensor)
      return tensor.error();
    initializer.tensor = *tensor;
    file.initializers.push_back(std::move(initializer));
  }
  auto describe = [&](const onnx::ValueInfoProto &info) {
    if (auto it = file.initializerIndex.find(info.name()); it != file.initializerIndex.end()) {
      file.initializers[it->second].kind = metadata(info.metadata_props(), kKindKey);
      file.initializers[it->second].foldedFrom = metadata(info.metadata_props(), kFoldedKey);
    }
  };
  std::for_each(graph.input().begin(), graph.input().end(),
                describe); // PyTorch's option keep_initializers_as_inputs puts the metadata there
  std::for_each(graph.value_info().begin(), graph.value_info().end(), describe);
  return ok();
}

/// Returns whether two names differ in digits only, such as layers.0.linear.bias and layers.1.linear.bias.
bool differInNumbers(std::string_view a, std::string_view b) {
  auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
  std::string x, y;
  std::copy_if(a.begin(), a.end(), std::back_inserter(x), [&](char c) { return !isDigit(c); });
  std::copy_if(b.begin(), b.end(), std::back_inserter(y), [&](char c) { return !isDigit(c); });
  return x == y;
}

/// Separates tensors that PyTorch's older exporter merged because of equal values, keeping one and replacing the others
/// by Identity nodes. In a freshly initialized model, uniform tensors (norms) and tensors of repeated layers are equal
/// by accident, so each becomes an initializer of its own. Other equal tensors stay tied.
void separateEqual(OnnxFile &file, onnx::GraphProto &graph) {
  std::set<std::string> outputs;
  for (const onnx::ValueInfoProto &output : graph.output())
    outputs.insert(output.name());
  for (const Initializer &initializer : file.initializers)
    if (!initializer.kind.empty())
      return; // the newer exporter does not merge tensors
  auto isMerged = [&](const onnx::NodeProto &node) {
    if (node.op_type() != "Identity" || node.input_size() != 1 || node.output_size() != 1 ||
        node.name().rfind("Identity_", 0) != 0)
      return false;
    const std::string &name = node.output(0);
    const Initializer *of = file.find(node.input(0));
    bool isNumber =
        name.find_first_not_of("0123456789") == std::string::npos; // a name of digits is an intermediate value
    return of && isFloat(of->tensor.dtype) && !of->narrow && !isNumber && name[0] != '/' && !outputs.count(name) &&
           !file.find(name) && (isUniform(of->tensor) || differInNumbers(name, of->name));
  };
  int kept = 0;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!isMerged(graph.node(i))) {
      graph.mutable_node()->SwapElements(kept++, i);
      continue;
    }
    Initializer copy = *file.find(graph.node(i).input(0));
    copy.name = graph.node(i).output(0);
    file.initializerIndex.emplace(copy.name, int(file.initializers.size()));
    file.separated.push_back(copy.name);
    file.initializers.push_back(std::move(copy));
  }
  graph.mutable_node()->DeleteSubrange(kept, graph.node_size() - kept);
}

} // namespace

bool isUniform(const Tensor &tensor) {
  int64_t element = bytesOf(tensor.dtype);
  return tensor.data && tensor.bytes() > 0 &&
         std::memcmp(tensor.data, tensor.data + element, size_t(tensor.bytes() - element)) == 0;
}

std::string metadata(const google::protobuf::RepeatedPtrField<onnx::StringPair> &pairs, std::string_view key) {
  for (const onnx::StringPair &pair : pairs)
    if (pair.key() == key)
      return pair.value();
  return "";
}

Result<DType> dtypeFromOnnx(int32_t type) {
  using T = onnx::TensorProto;
  switch (type) {
  case T::FLOAT:
    return DType::F32;
  case T::DOUBLE:
    return DType::F64;
  case T::FLOAT16:
    return DType::F16;
  case T::BFLOAT16:
    return DType::BF16;
  case T::INT64:
    return DType::I64;
  case T::INT32:
    return DType::I32;
  case T::INT16:
    return DType::I16;
  case T::INT8:
    return DType::I8;
  case T::UINT64:
    return DType::U64;
  case T::UINT32:
    return DType::U32;
  case T::UINT16:
    return DType::U16;
  case T::UINT8:
    return DType::U8;
  case T::BOOL:
    return DType::Bool;
  }
  const NarrowFormat *narrow = narrowFormat(type);
  return Error{fmt::format("element type {} of the format ({}) is not one in which Kerf computes (float, double, "
                           "float16, bfloat16, int64, int32, int16, int8, uint64, uint32, uint16, uint8, bool); use "
                           "one of these types in the module and export it again",
                           type,
                           narrow                  ? std::string(narrow->name)
                           : T::Type_IsValid(type) ? T::Type_Name(T::Type(type))
                                                   : std::string("unknown"))};
}

Result<Tensor> tensorFromProto(const onnx::TensorProto &proto, std::shared_ptr<const void> owner) {
  Result<Stored> stored = storedOf(proto);
  if (!stored)
    return stored.error();
  if (proto.data_location() == kExternal)
    return Error{fmt::format("tensor '{}': external data is supported for initializers only", proto.name())};
  const std::string &raw = proto.raw_data();
  const int64_t bytes = stored->bytes();
  if (raw.empty() && bytes > 0)
    return fromTypedFields(proto, *stored);
  if (int64_t(raw.size()) != bytes)
    return Error{fmt::format("tensor '{}' of shape {} and type {} needs {} bytes, but its data has {}", proto.name(),
                             shapeText(stored->shape), stored->type(), bytes, raw.size())};
  return tensorOf(*stored, reinterpret_cast<const std::byte *>(raw.data()), std::move(owner));
}

/// Parses the protobuf message of a memory-mapped file or of bytes in memory.
static Result<std::shared_ptr<onnx::ModelProto>> parseModel(const ModelSource &source) {
  std::shared_ptr<const MappedFile> mapped;
  if (!source.bytes) {
    Result<std::shared_ptr<const MappedFile>> file = mapFile(source.name);
    if (!file)
      return file.error();
    mapped = std::move(*file);
  }
  const void *data = mapped ? static_cast<const void *>(mapped->data) : source.bytes->data();
  const size_t bytes = mapped ? mapped->bytes : source.bytes->size();
  if (bytes > size_t(std::numeric_limits<int32_t>::max()))
    return Error{fmt::format(
        "'{}' has {} bytes, but a protobuf file has at most 2147483647; export the model with external data",
        source.name, bytes)};
  auto model = std::make_shared<onnx::ModelProto>();
  google::protobuf::io::ArrayInputStream array(data, int(bytes));
  google::protobuf::io::CodedInputStream stream(&array);
  stream.SetTotalBytesLimit(std::numeric_limits<int32_t>::max());
  if (!model->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return Error{fmt::format(
        "'{}' is not a complete ONNX file; its {} bytes end in the middle of a field, or the file has another format",
        source.name, bytes)};
  return model;
}

Result<OnnxFile> readOnnx(const ModelSource &source) {
  const std::string &path = source.name;
  auto parsed = parseModel(source);
  if (!parsed)
    return parsed.error();
  std::shared_ptr<onnx::ModelProto> model = std::move(*parsed);
  OnnxFile file;
  file.model = model;
  file.inMemory = source.bytes != nullptr;
  for (const onnx::OperatorSetIdProto &set : model->opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx")
      file.opset = set.version();
  if (model->graph().node_size() == 0 || file.opset <= 0)
    return Error{fmt::format("'{}' has no ONNX model: {} nodes, opset {}; {}", path, model->graph().node_size(),
                             file.opset, kExportAgain)};
  if (Status status = readInitializers(file, source); !status)
    return withWayOut({fmt::format("'{}': {}", path, status.error().message), status.error().status}, kExportAgain);
  separateEqual(file, *model->mutable_graph());
  return file;
}

} // namespace kerf::frontend
